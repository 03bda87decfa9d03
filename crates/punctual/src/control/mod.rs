//! The control socket of a run: JSON lines over a unix socket, `docs/control-socket.md`.
//!
//! `run` starts a [`Server`] with a [`Service`] for its links; commands reach it as a [`Client`].

mod bell;
mod client;
mod connection;
mod handed;
mod json;
mod others;
mod request;
pub(crate) mod runs;
mod server;
mod service;
pub(crate) mod socket;

pub(crate) use self::client::{AskError, Client};
pub(crate) use self::request::Setting;
pub(crate) use self::runs::RunPlace;
pub(crate) use self::server::Server;
pub(crate) use self::service::{Applied, Backlog, Links, Refused, RunFacts, Service, Shown};
