//! The scheduler of punctual: packets, queues, link stages. It sees no clock and does no I/O.

#![forbid(unsafe_code)]
