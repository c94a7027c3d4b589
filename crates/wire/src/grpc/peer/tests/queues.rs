//! A sample of every command on a queue that a peer forwards.

use punctual_core::queue::{Add, Ask, Deliver};

use super::*;

pub(super) fn commands() -> Vec<Command> {
    let (queue, sender, message) = (a_queue(), a_sender(), a_message());
    let asks = [
        Ask::Add(Add { queue: queue.clone(), messages: vec![message.clone()] }),
        Ask::Deliver(Deliver { queue: queue.clone(), sender, message }),
        Ask::Withdraw { queue, sender },
        Ask::Told { notice: i64::MAX },
    ];
    asks.map(Command::Queue).into()
}
