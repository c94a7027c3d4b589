//! Local clocks that change: a shard is driven over them on virtual time, and what it fires is held against a walk
//! through every minute of the local clock.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use punctual_core::Timestamp;
use punctual_core::job::{Definition, Overlap};
use punctual_core::schedule::{Cron, Schedule, When};

use crate::support::{Rig, START, on};

const DAY: i64 = 86_400;
/// How long the shard is driven.
const DAYS: i64 = 2 * 365;
/// At night, by half an hour, at midnight forwards and backwards, and south of the equator.
const ZONES: [&str; 5] =
    ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "America/Santiago"];

/// Two jobs a zone: one at a fixed time, one that follows elapsed time.
struct Jobs {
    zone: &'static str,
    fixed: (i8, i8),
    hours: [i8; 2],
}

impl Jobs {
    fn of(zone: &'static str) -> Jobs {
        match zone {
            "America/Havana" | "America/Santiago" => Jobs { zone, fixed: (0, 30), hours: [0, 23] },
            "Australia/Lord_Howe" => Jobs { zone, fixed: (2, 15), hours: [1, 2] },
            _ => Jobs { zone, fixed: (2, 30), hours: [1, 2] },
        }
    }

    fn put(&self, rig: &mut Rig) {
        let ((hour, minute), [one, other]) = (self.fixed, self.hours);
        for (kind, expression) in
            [("fixed", format!("{minute} {hour} * * *")), ("beat", format!("*/15 {one},{other} * * *"))]
        {
            let cron = Cron::parse(&expression, self.zone).expect("a cron as people write it");
            let definition = on([Schedule::new(When::Cron(cron))]);
            rig.put(&self.name(kind), Definition { overlap: Overlap::Allow, ..definition });
        }
    }

    fn name(&self, kind: &str) -> String {
        format!("{kind}-{}", self.zone.replace('/', "-"))
    }

    /// What the clock on the wall says between two seconds, minute by minute: fires of the one and of the other.
    fn walk(&self, zone: &TimeZone, from: i64, until: i64) -> (Vec<i64>, Vec<i64>) {
        let local =
            |second| zone.to_datetime(jiff::Timestamp::from_second(second).expect("a second of our time"));
        let (fixed, beat) = (&mut Vec::new(), &mut Vec::new());
        let mut highest = local(from - 60);
        for second in (from..=until).step_by(60) {
            let now = local(second);
            // Fixed: the first time that the clock reaches or passes it.
            let mut passed = false;
            while highest < now {
                highest += jiff::Span::new().minutes(1);
                passed |= highest.time() == Time::constant(self.fixed.0, self.fixed.1, 0, 0);
            }
            if passed {
                fixed.push(second);
            }
            if self.hours.contains(&now.hour()) && now.minute() % 15 == 0 {
                beat.push(second);
            }
        }
        (std::mem::take(fixed), std::mem::take(beat))
    }
}

#[test]
fn a_shard_passes_twenty_changes_as_the_clock_on_the_wall_does() {
    let mut rig = Rig::new(0);
    let jobs = ZONES.map(Jobs::of);
    for jobs in &jobs {
        jobs.put(&mut rig);
    }
    rig.advance(&format!("{DAYS}d"));

    let start = START.as_millis() / 1000;
    let mut passed = 0;
    for jobs in &jobs {
        let zone = TimeZone::get(jobs.zone).expect("a zone of the database");
        let fires = |kind| {
            let due = |due: Timestamp| due.as_millis() / 1000;
            rig.runs(&jobs.name(kind)).iter().map(|run| due(run.due)).collect::<Vec<i64>>()
        };
        let (fixed, beat) = (fires("fixed"), fires("beat"));
        // Never twice and never skipped: one a day, whatever the clock does.
        assert_eq!(fixed.len() as i64, DAYS, "{}", jobs.zone);
        let changes = zone.following(jiff::Timestamp::from_second(start).expect("the beginning"));
        let changes = changes.map(|change| change.timestamp().as_second());
        for change in changes.take_while(|change| *change < start + (DAYS - 2) * DAY) {
            // The walk begins and ends well away from the change, at the full minute.
            let (from, until) = (change - 2 * DAY, change + DAY);
            let within = |fires: &[i64]| -> Vec<i64> {
                fires.iter().copied().filter(|second| (from..=until).contains(second)).collect()
            };
            let expected = jobs.walk(&zone, from, until);
            assert_eq!((within(&fixed), within(&beat)), expected, "{} at second {change}", jobs.zone);
            passed += 1;
        }
    }
    assert_eq!(passed, 20);
}
