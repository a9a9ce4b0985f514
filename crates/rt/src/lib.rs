//! One door to time, threads and locks: the operating system today, virtual time by the same API.
