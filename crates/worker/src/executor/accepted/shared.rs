//! Values that attempts share, such as a connection.

use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustc_hash::FxHashMap;

/// Values that live as long as they are used.
#[derive(Debug)]
pub(in crate::executor) struct Shared<K, V>(Mutex<FxHashMap<K, Weak<V>>>);

impl<K, V> Default for Shared<K, V> {
    fn default() -> Self {
        Shared(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Default> Shared<K, V> {
    pub(in crate::executor) fn get(&self, key: K) -> Arc<V> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = values.get(&key).and_then(Weak::upgrade) {
            return value;
        }
        values.retain(|_, value| value.strong_count() > 0);
        let value = Arc::new(V::default());
        values.insert(key, Arc::downgrade(&value));
        value
    }
}
