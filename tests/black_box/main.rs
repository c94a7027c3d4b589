//! What the binary does for those who can only see it from outside.

mod first_day;
mod rules;
mod keys;
mod bad_input;
mod under_load;
mod crash;
mod one_owner;
mod clock;
mod stopped;
mod full_disk;
mod failing_disk;
mod torn_file;
mod herd;
