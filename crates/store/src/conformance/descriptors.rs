//! Descriptor sets: compare-and-swap on a version.

use punctual_core::command::Expect;
use punctual_core::task::Descriptor;

use super::given::*;
use crate::{PutDescriptor, Result, Store, Swap};

fn put(space: &str, descriptor: &str, set: &[u8], expect: Expect) -> PutDescriptor {
    PutDescriptor { namespace: namespace(space), name: name(descriptor), set: set.into(), at: at(5), expect }
}

/// The result of a successful swap; panics if it was refused.
fn done(swap: Swap<Descriptor>) -> Descriptor {
    match swap {
        Swap::Done(about) => about,
        Swap::Refused { actual } => panic!("it was refused, {actual:?} is there"),
    }
}

/// A descriptor set reads back as it was put, up to a megabyte of any bytes.
pub async fn a_descriptor_reads_back_as_it_was_put(store: &dyn Store) -> Result<()> {
    let (space, orders) = (namespace("payments/clearing"), name("orders"));
    assert_eq!(store.descriptor(&space, &orders).await?, None);
    let large: Vec<u8> = (0..=255).cycle().take(1024 * 1024).collect();
    for set in [&large[..], b"\0", b""] {
        let made =
            done(store.put_descriptor(put("payments/clearing", "orders", set, Expect::Anything)).await?);
        assert_eq!((&made.namespace, &made.name), (&space, &orders));
        assert_eq!((made.bytes, made.updated_at), (set.len(), at(5)));
        let stored = store.descriptor(&space, &orders).await?.expect("it was put");
        assert_eq!((&stored.about, &*stored.set), (&made, set));
    }
    assert_eq!(store.descriptor(&namespace("payments"), &orders).await?, None);
    Ok(())
}

/// A change that expects an outdated version changes nothing, and gets the current one. No version is given twice.
pub async fn a_change_of_an_outdated_descriptor_is_refused(store: &dyn Store) -> Result<()> {
    let (space, orders) = (namespace("a"), name("orders"));
    let first = done(store.put_descriptor(put("a", "orders", b"1", Expect::Absent)).await?).version;
    let refused = |actual| Swap::Refused { actual };
    for expect in [Expect::Absent, Expect::Revision(first + 7)] {
        assert_eq!(store.put_descriptor(put("a", "orders", b"2", expect)).await?, refused(Some(first)));
        assert_eq!(store.delete_descriptor(&space, &orders, expect).await?, refused(Some(first)));
    }
    assert_eq!(store.put_descriptor(put("a", "b", b"2", Expect::Revision(first))).await?, refused(None));
    let second = done(store.put_descriptor(put("a", "orders", b"2", Expect::Revision(first))).await?);
    assert!(second.version > first);
    assert_eq!(
        done(store.delete_descriptor(&space, &orders, Expect::Revision(second.version)).await?),
        second
    );
    assert_eq!(store.delete_descriptor(&space, &orders, Expect::Anything).await?, refused(None));
    assert_eq!(store.descriptor(&space, &orders).await?, None);
    let third = done(store.put_descriptor(put("a", "orders", b"3", Expect::Absent)).await?);
    assert!(third.version > second.version);
    Ok(())
}

/// The descriptor sets of a namespace are listed by name, in pages.
pub async fn descriptors_are_listed_by_name(store: &dyn Store) -> Result<()> {
    let mut expected = Vec::new();
    for space in ["b", "a", "a/b"] {
        for descriptor in ["zeta", "Alpha", "m.1", "m-1"] {
            let made = done(store.put_descriptor(put(space, descriptor, b"set", Expect::Absent)).await?);
            expected.extend((space == "a").then_some(made));
        }
    }
    expected.sort_by(|one, other| one.name.cmp(&other.name));
    for limit in [1, 3, 100] {
        let mut all: Vec<Descriptor> = Vec::new();
        loop {
            let page = store.descriptors(&namespace("a"), all.last().map(|last| &last.name), limit).await?;
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            all.extend(page);
        }
        assert_eq!(all, expected, "pages of {limit}");
    }
    Ok(())
}
