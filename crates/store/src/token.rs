//! Access tokens of programs. Only the hash is stored.

use punctual_core::Timestamp;

/// SHA-256 of a token's text.
pub type Hash = [u8; 32];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its name, for people; unique.
    pub name: String,
    pub hash: Hash,
    pub role: Role,
    pub created_at: Timestamp,
    /// From this instant on the token is refused. `None` means never.
    pub expires_at: Option<Timestamp>,
}

/// What the bearer of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything that a person may do through the endpoints.
    Admin,
    /// Read everything, change nothing.
    Reader,
    /// Enrol as a worker, and nothing else.
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
