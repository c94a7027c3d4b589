//! The tree of an expression, with every name resolved.
//!
//! minijinja parses the text. Its tree is converted into ours at once, and everything unknown here is refused with its
//! place when the job is saved, not when it runs. We evaluate our own tree and not minijinja's because each step must
//! also be bounded in bytes: there, `"x" * 100000000` is one step.

use minijinja::machinery::{Span, ast, parse_expr};

use super::filters::{self, Filter};
use super::is_tests::{self, IsTest};
use super::scope::{STEPS, Scope};
use super::value::Value;
use super::work::Work;
use super::{Error, depth};
use crate::Timestamp;

#[derive(Debug, Clone)]
pub(super) struct Expr {
    /// Its byte offset in the whole text.
    pub(super) at: usize,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Const(Value),
    Variable(&'static str),
    Attribute(Box<Expr>, Box<str>),
    Item(Box<Expr>, Box<Expr>),
    Slice {
        of: Box<Expr>,
        start: Option<Box<Expr>>,
        stop: Option<Box<Expr>>,
    },
    Not(Box<Expr>),
    Negative(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `a < b < c`: all comparisons must be true.
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    If {
        test: Box<Expr>,
        then: Box<Expr>,
        otherwise: Box<Expr>,
    },
    Filter(&'static Filter, Box<Expr>, Vec<Expr>),
    /// The value, or a default if it is undefined.
    Default(Box<Expr>, Box<Expr>),
    Defined(Box<Expr>),
    Test(&'static IsTest, Box<Expr>, Vec<Expr>),
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    DivideWhole,
    Remainder,
    Power,
    Concat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

/// Parses an expression that begins at byte `begin` of the text.
pub(super) fn read(source: &str, begin: usize, scope: &Scope<'_>) -> Result<Expr, Error> {
    if source.trim().is_empty() {
        return Err(Error { at: begin, message: "the expression is empty".to_owned() });
    }
    depth::check(source, begin)?;
    let tree = parse_expr(source).map_err(|error| Error::of_syntax(&error, begin))?;
    Reader { begin, scope }.expr(&tree)
}

struct Reader<'a> {
    begin: usize,
    scope: &'a Scope<'a>,
}

type Read<T> = Result<T, Error>;

impl Reader<'_> {
    fn at(&self, span: Span) -> usize {
        self.begin + span.start_offset as usize
    }

    fn refuse<T>(&self, span: Span, message: impl Into<String>) -> Read<T> {
        Err(Error { at: self.at(span), message: message.into() })
    }

    fn boxed(&self, tree: &ast::Expr<'_>) -> Read<Box<Expr>> {
        self.expr(tree).map(Box::new)
    }

    fn maybe(&self, tree: Option<&ast::Expr<'_>>) -> Read<Option<Box<Expr>>> {
        tree.map(|tree| self.boxed(tree)).transpose()
    }

    fn all(&self, trees: &[ast::Expr<'_>]) -> Read<Vec<Expr>> {
        trees.iter().map(|tree| self.expr(tree)).collect()
    }

    fn expr(&self, tree: &ast::Expr<'_>) -> Read<Expr> {
        let at = self.at(tree.span());
        let kind = match tree {
            ast::Expr::Const(tree) => Kind::Const(self.constant(tree)?),
            ast::Expr::Var(tree) => match self.scope.variable(tree.id) {
                Some(STEPS) => {
                    let message = "`steps` has no value by itself; name a step, such as `steps.load.output`";
                    return self.refuse(tree.span(), message);
                }
                Some(name) => Kind::Variable(name),
                None => return self.refuse(tree.span(), self.scope.unknown(tree.id)),
            },
            ast::Expr::GetAttr(tree) => {
                let of = self.owner(&tree.expr, Some(tree.name))?;
                if let Kind::Variable(variable) = of.kind
                    && let Err(message) = self.scope.attribute(variable, tree.name)
                {
                    return self.refuse(tree.span(), message);
                }
                Kind::Attribute(of, tree.name.into())
            }
            ast::Expr::GetItem(tree) => {
                let of = self.owner(&tree.expr, text_of(&tree.subscript_expr))?;
                Kind::Item(of, self.boxed(&tree.subscript_expr)?)
            }
            ast::Expr::Slice(tree) => {
                if tree.step.is_some() {
                    return self.refuse(tree.span(), "a slice has a start and an end, no step");
                }
                let (start, stop) = (self.maybe(tree.start.as_ref())?, self.maybe(tree.stop.as_ref())?);
                Kind::Slice { of: self.boxed(&tree.expr)?, start, stop }
            }
            ast::Expr::UnaryOp(tree) => match tree.op {
                ast::UnaryOpKind::Not => Kind::Not(self.boxed(&tree.expr)?),
                ast::UnaryOpKind::Neg => Kind::Negative(self.boxed(&tree.expr)?),
            },
            ast::Expr::BinOp(tree) => self.binary(tree)?,
            ast::Expr::Compare(tree) => {
                let rest = tree.ops.iter().map(|link| Ok((comparison(link.op), self.expr(&link.expr)?)));
                Kind::Compare(self.boxed(&tree.expr)?, rest.collect::<Read<_>>()?)
            }
            ast::Expr::IfExpr(tree) => {
                let Some(otherwise) = &tree.false_expr else {
                    return self.refuse(tree.span(), "an `if` needs an `else`");
                };
                Kind::If {
                    test: self.boxed(&tree.test_expr)?,
                    then: self.boxed(&tree.true_expr)?,
                    otherwise: self.boxed(otherwise)?,
                }
            }
            ast::Expr::Filter(tree) => self.filter(tree, tree.span())?,
            ast::Expr::Test(tree) => self.test(tree, tree.span())?,
            ast::Expr::Call(tree) => {
                return self
                    .refuse(tree.span(), "nothing can be called here; filters are written `value | name`");
            }
            ast::Expr::List(tree) => Kind::List(self.all(&tree.items)?),
            ast::Expr::Tuple(tree) => Kind::List(self.all(&tree.items)?),
            ast::Expr::Map(tree) => {
                let entries = tree.keys.iter().zip(&tree.values);
                let entries = entries.map(|(key, value)| Ok((self.expr(key)?, self.expr(value)?)));
                Kind::Map(entries.collect::<Read<_>>()?)
            }
        };
        // An expression with a left side begins where the left side begins.
        let at = match &kind {
            Kind::Attribute(left, _) | Kind::Item(left, _) | Kind::Slice { of: left, .. } => left.at,
            Kind::And(left, _) | Kind::Or(left, _) | Kind::Binary(_, left, _) | Kind::Compare(left, _) => {
                left.at
            }
            Kind::If { then, .. } => then.at,
            _ => at,
        };
        Ok(Expr { at, kind })
    }

    /// The value whose attribute or item `name` is read. `None` means an item by a computed key.
    fn owner(&self, tree: &ast::Expr<'_>, name: Option<&str>) -> Read<Box<Expr>> {
        let is_steps = |tree: &ast::Expr<'_>| matches!(tree, ast::Expr::Var(tree) if self.scope.variable(tree.id) == Some(STEPS));
        let checked = match (tree, name) {
            (tree, Some(name)) if is_steps(tree) => self.scope.step(name),
            (tree, None) if is_steps(tree) => {
                Err("name the step in quotes, such as `steps[\"load-all\"]`".to_owned())
            }
            (ast::Expr::GetAttr(step), Some(name)) if is_steps(&step.expr) => self.scope.step_attribute(name),
            (ast::Expr::GetItem(step), Some(name)) if is_steps(&step.expr) => self.scope.step_attribute(name),
            _ => Ok(()),
        };
        match checked {
            Err(message) => Err(Error { at: self.first(tree), message }),
            Ok(()) if is_steps(tree) => {
                Ok(Box::new(Expr { at: self.first(tree), kind: Kind::Variable(STEPS) }))
            }
            Ok(()) => self.boxed(tree),
        }
    }

    /// Where a path such as `steps.load` begins.
    fn first(&self, tree: &ast::Expr<'_>) -> usize {
        match tree {
            ast::Expr::GetAttr(tree) => self.at(tree.expr.span()),
            ast::Expr::GetItem(tree) => self.at(tree.expr.span()),
            tree => self.at(tree.span()),
        }
    }

    fn constant(&self, tree: &ast::Spanned<ast::Const>) -> Read<Value> {
        let value = &tree.value;
        if let Some(text) = value.as_str() {
            return Ok(Value::text(text));
        }
        if value.is_none() {
            return Ok(Value::Null);
        }
        if matches!(value.kind(), minijinja::value::ValueKind::Bool) {
            return Ok(Value::Bool(value.is_true()));
        }
        if value.is_integer() {
            return match i128::try_from(value.clone()) {
                Ok(number) => Ok(Value::Int(number)),
                Err(_) => self.refuse(tree.span(), "the number is too large"),
            };
        }
        match f64::try_from(value.clone()) {
            Ok(number) if number.is_finite() => Ok(Value::Float(number)),
            _ => self.refuse(tree.span(), "the number is too large"),
        }
    }

    fn binary(&self, tree: &ast::BinOp<'_>) -> Read<Kind> {
        let (left, right) = (self.boxed(&tree.left)?, self.boxed(&tree.right)?);
        let compare = |comparison, left, right: Box<Expr>| Kind::Compare(left, vec![(comparison, *right)]);
        Ok(match tree.op {
            ast::BinOpKind::ScAnd => Kind::And(left, right),
            ast::BinOpKind::ScOr => Kind::Or(left, right),
            ast::BinOpKind::Eq => compare(Comparison::Equal, left, right),
            ast::BinOpKind::Ne => compare(Comparison::Unequal, left, right),
            ast::BinOpKind::Lt => compare(Comparison::Less, left, right),
            ast::BinOpKind::Lte => compare(Comparison::LessOrEqual, left, right),
            ast::BinOpKind::Gt => compare(Comparison::Greater, left, right),
            ast::BinOpKind::Gte => compare(Comparison::GreaterOrEqual, left, right),
            ast::BinOpKind::In => compare(Comparison::In, left, right),
            ast::BinOpKind::Add => Kind::Binary(Binary::Add, left, right),
            ast::BinOpKind::Sub => Kind::Binary(Binary::Subtract, left, right),
            ast::BinOpKind::Mul => Kind::Binary(Binary::Multiply, left, right),
            ast::BinOpKind::Div => Kind::Binary(Binary::Divide, left, right),
            ast::BinOpKind::FloorDiv => Kind::Binary(Binary::DivideWhole, left, right),
            ast::BinOpKind::Rem => Kind::Binary(Binary::Remainder, left, right),
            ast::BinOpKind::Pow => Kind::Binary(Binary::Power, left, right),
            ast::BinOpKind::Concat => Kind::Binary(Binary::Concat, left, right),
        })
    }

    fn filter(&self, tree: &ast::Filter<'_>, span: Span) -> Read<Kind> {
        let Some(of) = &tree.expr else {
            return self.refuse(span, "a filter needs a value before it");
        };
        let of = self.boxed(of)?;
        let mut args = self.args(&tree.args, span)?;
        if tree.name == "default" {
            return match (args.pop(), args.is_empty()) {
                (Some(otherwise), true) => Ok(Kind::Default(of, Box::new(otherwise))),
                _ => self.refuse(span, "`default` takes one argument"),
            };
        }
        let Some(filter) = filters::find(tree.name) else {
            return self.refuse(
                span,
                format!("unknown filter `{}`; known are default, {}", tree.name, filters::names()),
            );
        };
        if !filter.args.contains(&args.len()) {
            return self.refuse(span, format!("`{}` takes {}", filter.name, count(&filter.args)));
        }
        if let Err(message) = try_out(filter, &args) {
            return self.refuse(span, message);
        }
        Ok(Kind::Filter(filter, of, args))
    }

    fn test(&self, tree: &ast::Test<'_>, span: Span) -> Read<Kind> {
        let of = self.boxed(&tree.expr)?;
        let args = self.args(&tree.args, span)?;
        let at = of.at;
        match tree.name {
            "defined" if args.is_empty() => return Ok(Kind::Defined(of)),
            "undefined" if args.is_empty() => {
                return Ok(Kind::Not(Box::new(Expr { at, kind: Kind::Defined(of) })));
            }
            _ => {}
        }
        match is_tests::find(tree.name) {
            Some(test) if test.args == args.len() => Ok(Kind::Test(test, of, args)),
            Some(test) => {
                self.refuse(span, format!("`is {}` takes {}", test.name, count(&(test.args..=test.args))))
            }
            None => {
                let known = is_tests::names();
                self.refuse(
                    span,
                    format!("unknown test `{}`; known are defined, undefined, {known}", tree.name),
                )
            }
        }
    }

    fn args(&self, args: &[ast::CallArg<'_>], span: Span) -> Read<Vec<Expr>> {
        let args = args.iter().map(|arg| match arg {
            ast::CallArg::Pos(arg) => self.expr(arg),
            _ => self.refuse(span, "arguments have no names and no `*` here"),
        });
        args.collect()
    }
}

/// The text of a constant.
fn text_of<'t>(tree: &'t ast::Expr<'_>) -> Option<&'t str> {
    match tree {
        ast::Expr::Const(tree) => tree.value.as_str(),
        _ => None,
    }
}

fn comparison(op: ast::CompareOpKind) -> Comparison {
    match op {
        ast::CompareOpKind::Eq => Comparison::Equal,
        ast::CompareOpKind::Ne => Comparison::Unequal,
        ast::CompareOpKind::Lt => Comparison::Less,
        ast::CompareOpKind::Lte => Comparison::LessOrEqual,
        ast::CompareOpKind::Gt => Comparison::Greater,
        ast::CompareOpKind::Gte => Comparison::GreaterOrEqual,
        ast::CompareOpKind::In => Comparison::In,
        ast::CompareOpKind::NotIn => Comparison::NotIn,
    }
}

fn count(args: &std::ops::RangeInclusive<usize>) -> String {
    match (*args.start(), *args.end()) {
        (_, 0) => "no argument".to_owned(),
        (1, 1) => "one argument".to_owned(),
        (0, 1) => "one argument at most".to_owned(),
        (_, many) => format!("{many} arguments"),
    }
}

/// Finds an invalid zone, format or span when the job is saved, if it is a constant.
fn try_out(filter: &Filter, args: &[Expr]) -> Result<(), String> {
    if !["format", "in_zone", "plus", "minus"].contains(&filter.name) {
        return Ok(());
    }
    let constants = args.iter().map(|arg| match &arg.kind {
        Kind::Const(value) => Some(value.clone()),
        _ => None,
    });
    match constants.collect::<Option<Vec<Value>>>() {
        Some(args) => {
            let sample = Value::instant(Timestamp::from_millis(1_000_000_000_000));
            (filter.apply)(&sample, &args, &mut Work::new()).map(|_| ())
        }
        None => Ok(()),
    }
}
