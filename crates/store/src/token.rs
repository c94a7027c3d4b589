//! Tokens: what a program proves itself with. Only the hash is kept.

use punctual_core::Timestamp;

/// SHA-256 of a token's text.
pub type Hash = [u8; 32];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What people call it; unique.
    pub name: String,
    pub hash: Hash,
    pub role: Role,
    pub created_at: Timestamp,
    /// From then on it is refused; none: never.
    pub expires_at: Option<Timestamp>,
}

/// What the bearer may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything that a person may do through the doors.
    Admin,
    /// To look at everything and change nothing.
    Reader,
    /// To enrol as a worker, and nothing else.
    Worker,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Admin, Role::Reader, Role::Worker];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Reader => "reader",
            Role::Worker => "worker",
        }
    }

    pub fn named(text: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == text)
    }
}
