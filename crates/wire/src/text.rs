//! The text forms of field values: ids, instants, durations, percentages. All are strings on the wire,
//! because JavaScript numbers cannot hold a 63-bit id and a bare `30` has no unit.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::schedule::{DURATION_MAX, format_duration, parse_duration};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::schema;

/// Bytes of an id or an instant: far more than needed, but few enough to repeat in an error.
const TEXT_BYTES_MAX: usize = 64;

/// A value whose wire form is its `Display` text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<T>(pub T);

/// RFC 3339; written in UTC with milliseconds.
pub type Instant = Text<Timestamp>;

schema::by_hand!(Instant as "Instant": schema::instant(TEXT_BYTES_MAX));

impl<T: fmt::Display> fmt::Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor<T>(PhantomData<T>);

        impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for TextVisitor<T> {
            type Value = Text<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<T>, E> {
                if text.len() > TEXT_BYTES_MAX {
                    return Err(E::custom(format!(
                        "at most {TEXT_BYTES_MAX} bytes, this has {}",
                        text.len()
                    )));
                }
                text.parse().map(Text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(TextVisitor(PhantomData))
    }
}

/// A parameter of a query that may be given several times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Several(pub Vec<String>);

impl<'de> Deserialize<'de> for Several {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SeveralVisitor;

        impl<'de> Visitor<'de> for SeveralVisitor {
            type Value = Several;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Several, E> {
                Ok(Several(vec![text.to_owned()]))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Several, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(Several(all))
            }
        }
        deserializer.deserialize_any(SeveralVisitor)
    }
}

/// A duration, such as `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

schema::by_hand!(Span as "Duration": schema::text(
    "Whole numbers with a unit, the largest first.",
    "^(?=.)([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$",
    DURATION_MAX,
    "1h30m",
));

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_duration(self.0))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SpanVisitor;

        impl Visitor<'_> for SpanVisitor {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration like 30s or 1h30m")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                parse_duration(text).map(Span).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(SpanVisitor)
    }
}

/// Parses a small number whose limit is checked later. A number too large for its type becomes the maximum,
/// so that the error names the real limit.
pub(crate) mod small {
    use super::{Deserializer, Visitor, de, fmt};

    struct Small;

    impl<'de> Visitor<'de> for Small {
        type Value = Option<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number, not negative")
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Option<u8>, E> {
            Ok(Some(u8::try_from(number).unwrap_or(u8::MAX)))
        }

        fn visit_unit<E: de::Error>(self) -> Result<Option<u8>, E> {
            Ok(None)
        }

        fn visit_none<E: de::Error>(self) -> Result<Option<u8>, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<u8>, D::Error> {
            deserializer.deserialize_u64(self)
        }
    }

    pub(crate) fn option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
        deserializer.deserialize_option(Small)
    }
}

/// A percentage, such as `20%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percent(pub u8);

schema::by_hand!(Percent as "Percent": schema::text("A share.", "^(100|0?[0-9]{1,2})%$", "100%".len(), "20%"));

impl Serialize for Percent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}%", self.0))
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PercentVisitor;

        impl Visitor<'_> for PercentVisitor {
            type Value = Percent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a percentage like 20%")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Percent, E> {
                text.strip_suffix('%')
                    .filter(|digits| digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit()))
                    .and_then(|digits| digits.parse().ok())
                    .filter(|share| *share <= 100)
                    .map(Percent)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &"0% to 100%"))
            }
        }
        deserializer.deserialize_str(PercentVisitor)
    }
}
