//! The link to the worker: in order in each direction, but a message can come twice, and one that is lost breaks the link
//! sooner or later: at a heartbeat the worker links itself again, names what it holds, and lends anew.

use std::time::Duration;

use punctual_core::attempt::{End, Order, Report};
use punctual_core::worker::Announcement;
use punctual_node::Input;

use super::{Happening, World, millis};
use crate::worker::Did;

const HEARTBEAT: Duration = Duration::from_secs(5);

impl World {
    pub(super) fn send_order(&mut self, order: &Order) {
        self.link_down = self.link_down.max(self.time + self.dice.below(4));
        for _ in 0..self.copies(self.cut_down) {
            self.at(self.link_down, Happening::Deliver(self.link, order.clone()));
        }
    }

    pub(super) fn say(&mut self, reports: &[Report]) {
        self.link_up = self.link_up.max(self.time + self.dice.below(4));
        for _ in 0..self.copies(self.cut_up) {
            self.at(self.link_up, Happening::Hear(self.link, reports.to_vec()));
        }
    }

    /// One direction or both are cut, for less than a lease or for longer: then attempts that go on are given up.
    pub(super) fn maybe_cut_link(&mut self) {
        if !self.stormy {
            return;
        }
        self.witness.seen.cuts += 1;
        let until = self.time + 3_000 + self.dice.below(40_000);
        match self.dice.below(3) {
            0 => self.cut_down = until,
            1 => self.cut_up = until,
            _ => (self.cut_down, self.cut_up) = (until, until),
        }
        let next = 10_000 + self.dice.below(self.weather.cut_gap);
        self.later(next, Happening::CutLink);
    }

    fn copies(&mut self, cut_until: u64) -> u32 {
        let trouble = if self.stormy { self.weather.message_trouble } else { 0 };
        let cut = self.stormy && self.time < cut_until;
        if cut || self.dice.one_in(trouble) {
            self.witness.seen.lost_messages += 1;
            self.torn = true;
            0
        } else if self.dice.one_in(trouble) {
            self.witness.seen.doubled_messages += 1;
            2
        } else {
            1
        }
    }

    /// What is still under way on the old link never arrives.
    pub(super) fn link(&mut self) {
        self.link += 1;
        (self.link_down, self.link_up, self.torn) = (self.time, self.time, false);
        let (worker, holding) = (self.worker_id(), self.worker.link_again());
        let announced = Announcement::of(self.size.slots);
        self.step(Input::Joined { worker, announced, holding });
        self.lend();
    }

    /// The worker lends what has become free.
    pub(super) fn lend(&mut self) {
        let words = self.worker.lend(self.clock());
        if !words.is_empty() {
            self.say(&words);
        }
    }

    pub(super) fn heartbeat(&mut self) {
        if self.torn && self.time >= self.cut_down.max(self.cut_up) {
            self.witness.seen.links += 1;
            self.link();
        }
        // One with empty hands says nothing by itself.
        if !self.worker.is_idle() {
            let reports = self.worker.heartbeat();
            self.say(&reports);
        }
        self.later(millis(HEARTBEAT), Happening::Heartbeat);
    }

    pub(super) fn deliver(&mut self, order: Order) {
        let clock = self.clock();
        match self.worker.take(order, clock) {
            Did::Start(assignment) => {
                // A clock that was stepped back since the fire does not make it early: engine time stood still.
                let engine_time = clock.max(assignment.due.min(self.engine_time()));
                let verdict = self.witness.started(&assignment, engine_time);
                self.witnessed(verdict);
                let (run, token) = (assignment.run, assignment.token);
                if self.dice.one_in(3) {
                    self.say(&[Report::Started { run, token, at: clock }]);
                }
                let fails = self.stormy && self.dice.one_in(self.weather.failures);
                let end = if fails { End::Failed } else { End::Succeeded };
                if let Some(takes) = self.takes() {
                    self.later(takes, Happening::End(run, token, end));
                }
            }
            Did::Stop(run, token) => {
                let takes = self.dice.below(500);
                self.later(takes, Happening::End(run, token, End::Failed));
            }
            Did::Say(reports) => self.say(&reports),
            Did::Nothing => {}
            Did::Object(what) => self.witnessed(Err(what)),
        }
        self.lend();
    }

    /// How long an attempt takes; none: it hangs.
    fn takes(&mut self) -> Option<u64> {
        match self.dice.below(40) {
            _ if !self.stormy => Some(self.dice.below(20)),
            0 => None,
            1 => Some(self.dice.below(60_000)),
            2..=9 => Some(self.dice.below(4_000)),
            _ => Some(self.dice.below(300)),
        }
    }

    /// What hung ends at last: only the promises of a living program are checked.
    pub(crate) fn end_what_hangs(&mut self) {
        for (run, token) in self.worker.unfinished() {
            self.later(1_000, Happening::End(run, token, End::Failed));
        }
    }
}
