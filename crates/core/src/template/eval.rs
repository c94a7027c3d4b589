//! Evaluates the tree of an expression. It uses only its values and its step budget.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Error;
use super::expr::{Binary, Comparison, Expr, Kind};
use super::scope::Values;
use super::value::{Made, Value, compare, number};
use super::work::{Work, written};

/// Why an expression has no value.
#[derive(Debug)]
pub(super) enum Failure {
    /// A name or item does not exist; `default` and `is defined` handle it.
    Undefined(Error),
    Other(Error),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure {
            Failure::Undefined(error) | Failure::Other(error) => error,
        }
    }
}

type Evaluated = Result<Value, Failure>;

pub(super) fn eval(expr: &Expr, values: &Values, work: &mut Work) -> Evaluated {
    let at = expr.at;
    let failed = |message: String| Failure::Other(Error { at, message });
    work.spend(1).map_err(failed)?;
    match &expr.kind {
        Kind::Const(value) => Ok(value.clone()),
        Kind::Variable(name) => {
            values.get(name).cloned().ok_or_else(|| undefined(at, format!("`{name}` is not known here")))
        }
        Kind::Attribute(of, name) => attribute(&eval(of, values, work)?, name, expr),
        Kind::Item(of, key) => item(&eval(of, values, work)?, &eval(key, values, work)?, expr),
        Kind::Slice { of, start, stop } => {
            let of = eval(of, values, work)?;
            let mut end = |end: &Option<Box<Expr>>| match end {
                Some(end) => eval(end, values, work).map(Some),
                None => Ok(None),
            };
            let (start, stop) = (end(start)?, end(stop)?);
            slice(&of, start.as_ref(), stop.as_ref(), work).map_err(failed)
        }
        Kind::Not(of) => Ok(Value::Bool(!eval(of, values, work)?.is_true())),
        Kind::Negative(of) => negative(&eval(of, values, work)?).map_err(failed),
        Kind::And(left, right) => {
            let left = eval(left, values, work)?;
            if left.is_true() { eval(right, values, work) } else { Ok(left) }
        }
        Kind::Or(left, right) => {
            let left = eval(left, values, work)?;
            if left.is_true() { Ok(left) } else { eval(right, values, work) }
        }
        Kind::Binary(op, left, right) => {
            let (left, right) = (eval(left, values, work)?, eval(right, values, work)?);
            binary(*op, &left, &right, work).map_err(failed)
        }
        Kind::Compare(first, rest) => compare_all(expr, first, rest, values, work),
        Kind::If { test, then, otherwise } => {
            let chosen = if eval(test, values, work)?.is_true() { then } else { otherwise };
            eval(chosen, values, work)
        }
        Kind::Filter(filter, of, args) => {
            let of = eval(of, values, work)?;
            let args = all(args, values, work)?;
            (filter.apply)(&of, &args, work)
                .map_err(|message| failed(format!("`{}`: {message}", filter.name)))
        }
        Kind::Default(of, otherwise) => match eval(of, values, work) {
            Ok(Value::Null) | Err(Failure::Undefined(_)) => eval(otherwise, values, work),
            evaluated => evaluated,
        },
        Kind::Defined(of) => match eval(of, values, work) {
            Ok(_) => Ok(Value::Bool(true)),
            Err(Failure::Undefined(_)) => Ok(Value::Bool(false)),
            Err(failure) => Err(failure),
        },
        Kind::Test(test, of, args) => {
            let of = eval(of, values, work)?;
            let args = all(args, values, work)?;
            (test.holds)(&of, &args)
                .map(Value::Bool)
                .map_err(|message| failed(format!("`is {}`: {message}", test.name)))
        }
        Kind::List(items) => Ok(Value::List(all(items, values, work)?.into())),
        Kind::Map(entries) => map(expr, entries, values, work),
    }
}

fn all(exprs: &[Expr], values: &Values, work: &mut Work) -> Result<Vec<Value>, Failure> {
    exprs.iter().map(|expr| eval(expr, values, work)).collect()
}

/// A chain of comparisons, such as `1 < x <= 5`: true if each of them holds.
fn compare_all(
    expr: &Expr,
    first: &Expr,
    rest: &[(Comparison, Expr)],
    values: &Values,
    work: &mut Work,
) -> Evaluated {
    let mut left = eval(first, values, work)?;
    for (comparison, right) in rest {
        let right = eval(right, values, work)?;
        let holds = holds(*comparison, &left, &right, work);
        if !holds.map_err(|message| Failure::Other(Error { at: expr.at, message }))? {
            return Ok(Value::Bool(false));
        }
        left = right;
    }
    Ok(Value::Bool(true))
}

fn map(expr: &Expr, entries: &[(Expr, Expr)], values: &Values, work: &mut Work) -> Evaluated {
    let mut map = BTreeMap::new();
    for (key, value) in entries {
        let Value::Text(key) = eval(key, values, work)? else {
            let message = "the key of a map is a text".to_owned();
            return Err(Failure::Other(Error { at: expr.at, message }));
        };
        map.insert(key.as_ref().to_owned(), eval(value, values, work)?);
    }
    Ok(Value::Map(Arc::new(map)))
}

fn undefined(at: usize, message: String) -> Failure {
    Failure::Undefined(Error { at, message })
}

fn attribute(of: &Value, name: &str, expr: &Expr) -> Evaluated {
    let path = || path_of(expr).unwrap_or_else(|| cut(name).to_owned());
    match of {
        Value::Map(entries) => {
            entries.get(name).cloned().ok_or_else(|| undefined(expr.at, format!("there is no `{}`", path())))
        }
        other => {
            let message = format!("{} has no `{}`, in `{}`", other.kind(), cut(name), path());
            Err(undefined(expr.at, message))
        }
    }
}

/// The path to a value as written, if it consists of names only.
fn path_of(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Variable(name) => Some((*name).to_owned()),
        Kind::Attribute(of, name) => path_of(of).map(|path| format!("{path}.{}", cut(name))),
        _ => None,
    }
}

/// A name, shortened for an error.
fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(60)]
}

fn item(of: &Value, key: &Value, expr: &Expr) -> Evaluated {
    let at = expr.at;
    match (of, key) {
        (Value::Map(_), Value::Text(name)) => attribute(of, name, expr),
        (Value::List(items), Value::Int(index)) => {
            let place = place(*index, items.len()).filter(|place| *place < items.len());
            let item = place.and_then(|place| items.get(place)).cloned();
            item.ok_or_else(|| {
                undefined(at, format!("there is no item {index} in a list of {}", items.len()))
            })
        }
        (of, key) => Err(undefined(at, format!("{} has no item by {}", of.kind(), key.kind()))),
    }
}

/// The position of an index; a negative one counts from the end. `None` means before the start.
fn place(index: i128, len: usize) -> Option<usize> {
    let index = if index < 0 { index + i128::try_from(len).unwrap_or(i128::MAX) } else { index };
    usize::try_from(index).ok()
}

fn slice(of: &Value, start: Option<&Value>, stop: Option<&Value>, work: &mut Work) -> Made {
    let end = |end: Option<&Value>, len: usize, default: usize| match end {
        None => Ok(default),
        Some(Value::Int(index)) => Ok(place(*index, len).unwrap_or(0).min(len)),
        Some(other) => Err(format!("a slice goes by numbers, this is {}", other.kind())),
    };
    match of {
        Value::Text(text) => {
            work.bytes(text.len())?;
            let len = text.chars().count();
            let (start, stop) = (end(start, len, 0)?, end(stop, len, len)?);
            let part: String = text.chars().skip(start).take(stop.saturating_sub(start)).collect();
            Ok(Value::text(part))
        }
        Value::List(items) => {
            work.items(items.len())?;
            let (start, stop) = (end(start, items.len(), 0)?, end(stop, items.len(), items.len())?);
            Ok(Value::List(items.get(start..stop).unwrap_or_default().into()))
        }
        other => Err(format!("{} cannot be sliced", other.kind())),
    }
}

fn negative(value: &Value) -> Made {
    match value {
        Value::Int(number) => number.checked_neg().map(Value::Int).ok_or_else(too_large),
        other => number(other).map(|number| Value::Float(-number)),
    }
}

fn too_large() -> String {
    "the number is too large".to_owned()
}

fn binary(op: Binary, left: &Value, right: &Value, work: &mut Work) -> Made {
    match (op, left, right) {
        (Binary::Concat, _, _) => {
            let (left, right) = (written(left, work)?, written(right, work)?);
            concat(&left, &right, work)
        }
        (Binary::Add, Value::Text(left), Value::Text(right)) => concat(left, right, work),
        (_, Value::Int(left), Value::Int(right)) => of_whole(op, *left, *right),
        _ => of_floats(op, number(left)?, number(right)?),
    }
}

fn concat(left: &str, right: &str, work: &mut Work) -> Made {
    work.bytes(left.len() + right.len())?;
    Ok(Value::text(format!("{left}{right}")))
}

fn of_whole(op: Binary, left: i128, right: i128) -> Made {
    if right == 0 && matches!(op, Binary::Divide | Binary::DivideWhole | Binary::Remainder) {
        return Err("divides by zero".to_owned());
    }
    let made = match op {
        Binary::Add => left.checked_add(right),
        Binary::Subtract => left.checked_sub(right),
        Binary::Multiply => left.checked_mul(right),
        Binary::DivideWhole => left.checked_div_euclid(right),
        Binary::Remainder => left.checked_rem_euclid(right),
        Binary::Power if right >= 0 => u32::try_from(right).ok().and_then(|right| left.checked_pow(right)),
        _ => return of_floats(op, number(&Value::Int(left))?, number(&Value::Int(right))?),
    };
    made.map(Value::Int).ok_or_else(too_large)
}

fn of_floats(op: Binary, left: f64, right: f64) -> Made {
    let made = match op {
        Binary::Add | Binary::Concat => left + right,
        Binary::Subtract => left - right,
        Binary::Multiply => left * right,
        Binary::Divide | Binary::DivideWhole | Binary::Remainder if right == 0.0 => {
            return Err("divides by zero".to_owned());
        }
        Binary::Divide => left / right,
        Binary::DivideWhole => left.div_euclid(right),
        Binary::Remainder => left.rem_euclid(right),
        Binary::Power => left.powf(right),
    };
    if made.is_finite() { Ok(Value::Float(made)) } else { Err(too_large()) }
}

fn holds(comparison: Comparison, left: &Value, right: &Value, work: &mut Work) -> Result<bool, String> {
    work.items(left.weight().min(right.weight()))?;
    let ordered = || {
        compare(left, right).ok_or_else(|| format!("{} and {} cannot be compared", left.kind(), right.kind()))
    };
    Ok(match comparison {
        Comparison::Equal => is_same(left, right),
        Comparison::Unequal => !is_same(left, right),
        Comparison::Less => ordered()? == Ordering::Less,
        Comparison::LessOrEqual => ordered()? != Ordering::Greater,
        Comparison::Greater => ordered()? == Ordering::Greater,
        Comparison::GreaterOrEqual => ordered()? != Ordering::Less,
        Comparison::In => contains(right, left, work)?,
        Comparison::NotIn => !contains(right, left, work)?,
    })
}

/// Numbers are equal by value, instants in any zone.
fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_))
        | (Value::Instant(_), Value::Instant(_)) => compare(left, right) == Some(Ordering::Equal),
        _ => left == right,
    }
}

fn contains(whole: &Value, part: &Value, work: &mut Work) -> Result<bool, String> {
    work.items(whole.weight())?;
    match (whole, part) {
        (Value::Text(whole), Value::Text(part)) => Ok(whole.contains(&**part)),
        (Value::List(items), part) => Ok(items.iter().any(|item| is_same(item, part))),
        (Value::Map(entries), Value::Text(key)) => Ok(entries.contains_key(&**key)),
        _ => Err(format!("{} cannot be in {}", part.kind(), whole.kind())),
    }
}
