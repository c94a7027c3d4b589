//! Expressions made up at random, as trees the slow walk understands.

use proptest::prelude::*;
use proptest::strategy::Union;

use super::oracle::{Expression, Field, Item};

/// Which forms to make up.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Forms {
    Ours,
    /// Only what croner reads, and reads as we do.
    Common,
}

pub(super) fn expressions(forms: Forms) -> impl Strategy<Value = Expression> {
    let minute = field(0, 59, forms);
    let hour = field(0, 23, forms);
    (
        proptest::option::of(field(0, 59, forms)),
        minute,
        hour,
        days(forms),
        proptest::option::weighted(0.2, years()),
    )
        .prop_map(|(second, minute, hour, (day, month, weekday), year)| {
            // Seven fields are counted from the second.
            let second = second
                .or_else(|| year.as_ref().map(|_| Field { low: 0, high: 59, items: vec![Item::One(0)] }));
            Expression { second, minute, hour, day, month, weekday, year }
        })
}

/// Expressions that fire on most days and around the hours at which clocks change, half of them at fixed
/// times.
pub(super) fn in_the_small_hours() -> impl Strategy<Value = Expression> {
    let fixed = |high: i64, last: i64| {
        let value = (0..=last).prop_map(Item::One);
        let range = (0..=last, 0..=last).prop_map(|(first, last)| Item::Range(first, last));
        let items = proptest::collection::vec(prop_oneof![3 => value, 1 => range], 1..3);
        items.prop_map(move |items| Field { low: 0, high, items })
    };
    let open = prop_oneof![
        Just(Item::All),
        (1..=3i64).prop_map(Item::Steps),
        (0..=3i64, 1..=2i64).prop_map(|(first, step)| Item::From(first, step)),
    ];
    let open = open.prop_map(|item| Field { low: 0, high: 23, items: vec![item] });
    let times = prop_oneof![
        4 => (Just(None), fixed(59, 59), fixed(23, 4).boxed()),
        1 => (fixed(59, 59).prop_map(Some), fixed(59, 59), fixed(23, 4).boxed()),
        2 => (Just(None), fixed(59, 59), open.boxed()),
        1 => (Just(None), field(0, 59, Forms::Ours), fixed(23, 4).boxed()),
    ];
    (expressions(Forms::Ours), times, proptest::bool::weighted(0.2)).prop_map(
        |(mut expression, times, some_days)| {
            if !some_days {
                for field in [&mut expression.day, &mut expression.month, &mut expression.weekday] {
                    field.items = vec![Item::All];
                }
            }
            let (second, minute, hour) = times;
            Expression { second, minute, hour, year: None, ..expression }
        },
    )
}

/// Day, month and weekday.
fn days(forms: Forms) -> impl Strategy<Value = (Field, Field, Field)> {
    // Croner knows no `L-n`, and forgets that 7 is Sunday in `7L`.
    let (last, sunday) = if forms == Forms::Ours { (30i64, 7i64) } else { (0, 6) };
    let day = Union::new_weighted(vec![
        (4, Just(Field { low: 1, high: 31, items: vec![Item::All] }).boxed()),
        (1, Just(Field { low: 1, high: 31, items: vec![Item::Question] }).boxed()),
        (4, field(1, 31, forms).boxed()),
        (1, special(1, 31, (0..=last).prop_map(Item::Last).boxed())),
        (1, special(1, 31, (1..=31i64).prop_map(Item::Nearest).boxed())),
        (1, special(1, 31, Just(Item::LastWorkday).boxed())),
    ]);
    let weekday = Union::new_weighted(vec![
        (4, Just(Field { low: 0, high: 6, items: vec![Item::All] }).boxed()),
        (4, weekdays(forms).boxed()),
        (1, special(0, 6, (0..=sunday).prop_map(Item::LastOf).boxed())),
        (
            1,
            special(
                0,
                6,
                (0..=7i64, 1..=5i64).prop_map(|(weekday, count)| Item::Nth(weekday, count)).boxed(),
            ),
        ),
    ]);
    let month = prop_oneof![Just(Field { low: 1, high: 12, items: vec![Item::All] }), field(1, 12, forms)];
    (day, month, weekday).prop_filter(
        "croner restricts a day field that starts with a star",
        move |(day, _, weekday)| {
            let steps = |field: &Field| {
                matches!(field.items[0], Item::Steps(_)) || field.items.len() > 1 && field.is_free()
            };
            forms == Forms::Ours || !(steps(day) || steps(weekday))
        },
    )
}

fn special(low: i64, high: i64, item: BoxedStrategy<Item>) -> BoxedStrategy<Field> {
    item.prop_map(move |item| Field { low, high, items: vec![item] }).boxed()
}

/// Sunday may be written 7, too.
fn weekdays(forms: Forms) -> impl Strategy<Value = Field> {
    let seven = prop_oneof![Just(Item::One(7)), (0..=6i64).prop_map(|first| Item::Range(first, 7))];
    (field(0, 6, forms), proptest::option::of(seven)).prop_map(|(mut field, seven)| {
        if !field.is_free() {
            field.items.extend(seven);
        }
        field
    })
}

fn years() -> impl Strategy<Value = Field> {
    let item = prop_oneof![
        (2020..=2050i64).prop_map(Item::One),
        (2020..=2050i64, 0..=30i64).prop_map(|(first, len)| Item::Range(first, first + len)),
        (2020..=2050i64, 0..=30i64, 1..=9i64).prop_map(|(first, len, step)| Item::RangeSteps(
            first,
            first + len,
            step
        )),
    ];
    proptest::collection::vec(item, 1..3).prop_map(|items| Field { low: 1970, high: 2099, items })
}

fn field(low: i64, high: i64, forms: Forms) -> impl Strategy<Value = Field> {
    let value = low..=high;
    let range = (value.clone(), value.clone()).prop_map(move |(first, last)| {
        if forms == Forms::Ours { (first, last) } else { (first.min(last), first.max(last)) }
    });
    let step = 1..=high - low + 1;
    let mut items = vec![
        (2, Just(Item::All).boxed()),
        (6, value.clone().prop_map(Item::One).boxed()),
        (2, range.clone().prop_map(|(first, last)| Item::Range(first, last)).boxed()),
        (2, step.clone().prop_map(Item::Steps).boxed()),
        (
            1,
            (range, step.clone())
                .prop_map(|((first, last), step)| Item::RangeSteps(first, last, step))
                .boxed(),
        ),
    ];
    if forms == Forms::Ours {
        items.push((1, (value, step).prop_map(|(first, step)| Item::From(first, step)).boxed()));
    }
    let items = proptest::collection::vec(Union::new_weighted(items), 1..4);
    items.prop_map(move |mut items| {
        // Croner knows a star only by itself.
        if forms == Forms::Common && items.iter().any(|item| matches!(item, Item::All)) {
            items = vec![Item::All];
        }
        Field { low, high, items }
    })
}
