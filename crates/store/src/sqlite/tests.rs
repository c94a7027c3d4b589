//! sqlite tests
