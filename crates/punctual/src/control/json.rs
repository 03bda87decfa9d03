//! JSON as requests are made of: each key of an object once, and numbers that are whole.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A value of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Json {
    /// `null`, `true`, `false`, a list, a fraction: nothing that a request has. In words.
    Other(&'static str),
    /// A whole number of 64 bits, signed or not.
    Integer(i128),
    /// A text.
    Text(String),
    /// An object: keys in their order, each once.
    Object(Vec<(String, Self)>),
}

impl Json {
    /// What it is, in words.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Other(kind) => kind,
            Self::Integer(_) => "a number",
            Self::Text(_) => "a text",
            Self::Object(_) => "an object",
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Other("null"))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Other(if value { "true" } else { "false" }))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Json, E> {
        // A whole number beyond 64 bits comes as one, too.
        let is_large = value.abs() >= I64_RANGE;
        Ok(Json::Other(if is_large { "a number out of range" } else { "a fraction" }))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Integer(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Integer(value.into()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Json::Other("a list"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Json, A::Error> {
        let mut entries: Vec<(String, Json)> = Vec::new();
        while let Some((key, value)) = object.next_entry::<String, Json>()? {
            if entries.len() == MOST_KEYS {
                return Err(Error::custom(format!("an object of more than {MOST_KEYS} keys")));
            }
            if entries.iter().any(|(known, _)| *known == key) {
                let key: String = key.chars().take(64).collect();
                return Err(Error::custom(format!("the key \"{key}\" is there twice")));
            }
            entries.push((key, value));
        }
        Ok(Json::Object(entries))
    }
}

/// Of one object: several times the parameters of two directions. The search for a key that is there
/// twice goes through all of them.
const MOST_KEYS: usize = 1_000;
/// From here on no 64 bits hold every negative whole number.
const I64_RANGE: f64 = 9_223_372_036_854_775_808.0;
