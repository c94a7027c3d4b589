//! The gRPC types, made from `proto/`, and what is in their bytes.

pub mod peer;

#[expect(clippy::allow_attributes, reason = "made by a program")]
pub mod v1 {
    tonic::include_proto!("punctual.v1");
}
