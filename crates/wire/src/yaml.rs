//! Writes YAML for people, for `-o yaml`.

use serde::Serialize;

/// Writes a value as one YAML document.
pub fn to_string<T: Serialize>(value: &T) -> Result<String, String> {
    serde_saphyr::to_string(value).map_err(|error| error.to_string())
}
