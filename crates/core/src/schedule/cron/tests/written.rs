//! How a cron is kept: as its texts, in any format, and small in memory.

use super::super::calendar::Month;
use super::super::{Cron, Weekdays};
use super::check_cron;

const JANUARY: Month = Month { year: 2030, month: 1 };

fn sample() -> Cron {
    Cron::parse_with("0 0 H ? * \t2-6", "Europe/Paris", Weekdays::Quartz, Some("pay \"roll\"")).unwrap()
}

#[test]
fn a_cron_comes_back_from_json_as_it_was() {
    let text = serde_json::to_string(&sample()).unwrap();
    let expected = r#"{"expression":"0 0 H ? * \t2-6","zone":"Europe/Paris","weekdays":"quartz","spread_key":"pay \"roll\""}"#;
    assert_eq!(text, expected);
    assert_eq!(serde_json::from_str::<Cron>(&text).unwrap(), sample());
    assert_eq!(serde_json::from_value::<Cron>(serde_json::to_value(sample()).unwrap()).unwrap(), sample());
}

#[test]
fn a_cron_comes_back_from_postcard_as_it_was() {
    let plain = Cron::parse("0 1 * * *", "Asia/Shanghai").unwrap();
    for cron in [plain, sample()] {
        let bytes = postcard::to_stdvec(&cron).unwrap();
        assert_eq!(postcard::from_bytes::<Cron>(&bytes).unwrap(), cron);
    }
}

#[test]
fn a_stored_expression_that_is_wrong_says_why() {
    let text = r#"{"expression":"61 * * * *","zone":"UTC","weekdays":"unix","spread_key":null}"#;
    let error = serde_json::from_str::<Cron>(text).unwrap_err();
    assert!(error.to_string().starts_with("minute field: `61` is out of range 0-59"), "{error}");
}

#[test]
fn a_cron_is_small() {
    assert!(size_of::<Cron>() <= 160, "{}", size_of::<Cron>());
}

#[test]
fn a_spread_never_moves() {
    // Part of the storage format: another answer would move every such job to another time.
    let spread = |text, key| Cron::parse_with(text, "UTC", Weekdays::Unix, Some(key)).unwrap();
    check_cron(&spread("H H * * *", "nightly"), "2029-12-31T23:59:59Z", &["2030-01-01T08:10:00Z"]);
    check_cron(&spread("H H H H *", "nightly"), "2029-12-31T23:59:59Z", &["2030-02-20T08:10:00Z"]);
    check_cron(&spread("H H/6 * * *", "weekly"), "2029-12-31T23:59:59Z", &["2030-01-01T04:55:00Z"]);
}

#[test]
fn a_spread_keeps_to_its_bounds_and_reaches_all_of_them() {
    let mut minutes = 0u64;
    let (mut days, mut weekdays) = (0u32, 0u32);
    for job in 0..2000 {
        let key = job.to_string();
        let spread = |text| Cron::parse_with(text, "UTC", Weekdays::Unix, Some(&key)).unwrap().pattern;
        let minutes_of = |text| spread(text).minutes;
        assert_eq!(minutes_of("H * * * *").count_ones(), 1);
        assert_eq!(minutes_of("H/15 * * * *").count_ones(), 4);
        assert_eq!(minutes_of("H(0-29)/10 * * * *").count_ones(), 3);
        minutes |= minutes_of("H(10-19) * * * *");
        days |= spread("0 0 H * *").days.mask(JANUARY);
        weekdays |= spread("0 0 * * H").days.mask(JANUARY) & 0xfe;
        assert_eq!((spread("0 0 * * H").days.mask(JANUARY) & 0xfe).count_ones(), 1);
    }
    assert_eq!(minutes, 0x3ff << 10);
    // Only days that every month has.
    assert_eq!(days, 0x1fff_fffe);
    assert_eq!(weekdays, 0xfe);
}
