//! A sample of every command on a queue that a peer forwards.

use punctual_core::queue::{Add, Ask, DeadMessage, Deliver};

use super::*;

pub(super) fn commands() -> Vec<Command> {
    let (queue, sender, message) = (a_queue(), a_sender(), a_message());
    let asks = [
        Ask::Add(Add { queue: queue.clone(), messages: vec![message.clone()] }),
        Ask::Deliver(Deliver { queue: queue.clone(), sender, message: message.clone() }),
        Ask::Withdraw { queue: queue.clone(), sender },
        Ask::Told { notice: i64::MAX },
        Ask::Set { queue: queue.clone(), settings: Box::default() },
        Ask::AddDead { notice: i64::MAX, dead: Box::new(DeadMessage { queue, message }) },
    ];
    asks.map(Command::Queue).into()
}
