//! Mail: delivered until it is taken, and only to its recipient.

use std::time::Duration;

use punctual_core::ids::SessionId;

use crate::mail::Mail;
use crate::{Result, Store};

const KEPT: Duration = Duration::from_secs(600);
const A: SessionId = SessionId(1);
const B: SessionId = SessionId(i64::MAX);

fn mail(from: SessionId, to: SessionId, number: i64) -> Mail {
    Mail { to, from, number, body: format!("\0\u{fe}{number} from {from}").into_bytes() }
}

/// Mail is delivered again until its recipient confirms it.
pub async fn mail_is_given_until_it_was_taken(store: &dyn Store) -> Result<()> {
    let all = [mail(A, B, 1), mail(A, B, 2), mail(B, A, 1)];
    store.send_mail(&all, KEPT).await?;
    for _ in 0..2 {
        assert_eq!(store.receive_mail(B, &[], 10).await?, all[..2]);
    }
    assert_eq!(store.receive_mail(B, &[all[0].place()], 10).await?, all[1..2]);
    assert_eq!(store.receive_mail(B, &[all[0].place(), all[1].place()], 10).await?, []);
    assert_eq!(store.receive_mail(A, &[], 10).await?, all[2..], "nobody takes what is for others");
    Ok(())
}

/// A sender that does not know whether its mail was stored sends it again.
pub async fn mail_that_is_sent_twice_is_there_once(store: &dyn Store) -> Result<()> {
    store.send_mail(&[mail(A, B, 1)], KEPT).await?;
    store.send_mail(&[mail(A, B, 1), mail(A, B, 2)], KEPT).await?;
    assert_eq!(store.receive_mail(B, &[], 10).await?, [mail(A, B, 1), mail(A, B, 2)]);
    Ok(())
}

/// The mail of one sender comes in the order of its numbers, in pages.
pub async fn mail_comes_in_order_and_by_pages(store: &dyn Store) -> Result<()> {
    let all: Vec<Mail> = (1..=20).map(|number| mail(A, B, number)).collect();
    let shuffled: Vec<Mail> = all.iter().rev().cloned().collect();
    store.send_mail(&shuffled, KEPT).await?;
    let mut read: Vec<Mail> = Vec::new();
    let mut taken = Vec::new();
    loop {
        let page = store.receive_mail(B, &taken, 7).await?;
        if page.is_empty() {
            break;
        }
        taken = page.iter().map(Mail::place).collect();
        read.extend(page);
    }
    assert_eq!(read, all);
    Ok(())
}

/// Mail that is never taken is deleted after a while.
pub async fn mail_that_nobody_takes_goes_with_time(store: &dyn Store) -> Result<()> {
    store.send_mail(&[mail(A, B, 1)], KEPT).await?;
    // Let time pass by the store's clock.
    tokio::time::sleep(Duration::from_millis(50)).await;
    store.send_mail(&[mail(A, B, 2)], Duration::from_millis(10)).await?;
    assert_eq!(store.receive_mail(B, &[], 10).await?, [mail(A, B, 2)]);
    Ok(())
}
