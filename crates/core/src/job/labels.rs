//! The labels of a job, and the parameters that its runs are found by.

use super::Invalid;
use super::route::Labels;
use crate::limits;

/// Refuses labels that are too many or too long, or that a filter `name=value` could not name.
pub(super) fn check_labels(labels: &Labels) -> Result<(), Invalid> {
    if labels.len() > limits::JOB_LABELS_MAX {
        return Err(Invalid::new("labels", format!("at most {} labels a job", limits::JOB_LABELS_MAX)));
    }
    let fits =
        |text: &String| text.len() <= limits::JOB_LABEL_BYTES_MAX && !text.chars().any(char::is_control);
    let is_name = |name: &String| !name.is_empty() && !name.contains('=') && fits(name);
    match labels.iter().find(|(name, value)| !is_name(name) || !fits(value)) {
        Some((name, _)) => {
            let message = format!(
                "the label `{}` needs a name and a value of at most {} bytes each, without control characters, \
                 and a name without `=`",
                shown(name),
                limits::JOB_LABEL_BYTES_MAX
            );
            Err(Invalid::new("labels", message))
        }
        None => Ok(()),
    }
}

/// Refuses names that no parameter can have, and more of them than a run is indexed by.
pub(super) fn check_search(names: &[String]) -> Result<(), Invalid> {
    if names.len() > limits::SEARCH_PARAMS_MAX {
        let message = format!("at most {} parameters a job", limits::SEARCH_PARAMS_MAX);
        return Err(Invalid::new("search", message));
    }
    for (index, name) in names.iter().enumerate() {
        let field = || format!("search[{index}]");
        if name.is_empty() || name.len() > limits::NAME_BYTES_MAX || name.chars().any(char::is_control) {
            let message = format!(
                "the name of a parameter: 1 to {} bytes without control characters",
                limits::NAME_BYTES_MAX
            );
            return Err(Invalid::new(field(), message));
        }
        if names[..index].contains(name) {
            return Err(Invalid::new(field(), format!("`{}` is named twice", shown(name))));
        }
    }
    Ok(())
}

/// The beginning of a name, as an error repeats it.
fn shown(name: &str) -> String {
    name.chars().take(60).flat_map(char::escape_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(count: usize, name: &str, value: &str) -> Labels {
        (0..count).map(|index| (format!("{name}{index}"), value.to_owned())).collect()
    }

    #[test]
    fn a_job_has_at_most_32_labels_of_256_bytes() {
        let (fits, too_long) = ("v".repeat(256), "v".repeat(257));
        assert_eq!(check_labels(&labels(32, "team", &fits)), Ok(()));
        assert_eq!(check_labels(&labels(1, &"n".repeat(255), "")), Ok(()));
        let refused = [
            labels(33, "team", "a"),
            labels(1, "team", &too_long),
            labels(1, &"n".repeat(256), "a"),
            labels(1, "a=b", "c"),
            labels(1, "team", "a\nb"),
            labels(1, "te\u{7}am", "a"),
            Labels::from([(String::new(), "a".to_owned())]),
        ];
        for labels in refused {
            assert_eq!(
                check_labels(&labels).map_err(|error| error.field),
                Err("labels".into()),
                "{labels:?}"
            );
        }
    }

    #[test]
    fn a_job_names_at_most_10_parameters_each_once() {
        let names = |count: usize| (0..count).map(|index| format!("p{index}")).collect::<Vec<_>>();
        assert_eq!(check_search(&names(10)), Ok(()));
        let field = |names: &[String]| check_search(names).unwrap_err().field;
        assert_eq!(field(&names(11)), "search");
        assert_eq!(field(&["customer".to_owned(), String::new()]), "search[1]");
        assert_eq!(field(&["x".repeat(129)]), "search[0]");
        assert_eq!(field(&["a".to_owned(), "b".to_owned(), "a".to_owned()]), "search[2]");
    }
}
