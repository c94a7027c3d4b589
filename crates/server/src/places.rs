//! Counts connections, in total and by address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::settings::Settings;

#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    most_per_address: usize,
    taken: Mutex<Taken>,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// One counted connection; released on drop.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    address: IpAddr,
}

impl Places {
    pub(crate) fn new(settings: &Settings) -> Arc<Places> {
        Arc::new(Places {
            most: settings.connections,
            most_per_address: settings.connections_per_address,
            taken: Mutex::default(),
            refused: AtomicU64::new(0),
        })
    }

    /// Counts a connection from this address. `None` means that a limit is reached.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let here = taken.by_address.get(&address).copied().unwrap_or(0);
        if taken.all >= self.most || here >= self.most_per_address {
            self.refused.fetch_add(1, Relaxed);
            return None;
        }
        taken.all += 1;
        taken.by_address.insert(address, here + 1);
        Some(Place { places: Arc::clone(self), address })
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).all
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= 1;
        if let Some(here) = taken.by_address.get_mut(&self.address) {
            *here -= 1;
            // Keep only addresses with open connections, or the map would grow forever.
            if *here == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_connection_ends() {
        let settings = Settings { connections: 3, connections_per_address: 2, ..Settings::default() };
        let places = Places::new(&settings);
        let (here, there) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let first = places.take(here);
        let second = places.take(here);
        assert!(first.is_some() && second.is_some());
        assert!(places.take(here).is_none(), "two from one address");
        let third = places.take(there);
        assert!(third.is_some());
        assert!(places.take(IpAddr::from([127, 0, 0, 3])).is_none(), "three in all");
        assert_eq!((places.taken(), places.refused()), (3, 2));
        drop((first, third));
        assert_eq!(places.taken(), 1);
        assert!(places.take(here).is_some());
        drop(second);
        assert!(places.taken.lock().unwrap().by_address.is_empty());
    }
}
