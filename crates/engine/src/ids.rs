// SPDX-License-Identifier: LGPL-3.0-only
//! Ids, names, amounts and caps that all other modules use.

pub mod idset;
mod job_id_text;
mod job_map;
mod measure;

pub use job_id_text::{f58, replace_job_numbers_with_f58};
pub use job_map::JobMap;
pub use measure::{Amount, Measure, Stage};

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A constant string in an answer, such as the code of a reason. Programs compare it.
pub type Word = Cow<'static, str>;

/// A Flux job id (RFC 19, 64 bit). A job that was submitted later has a larger id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobId(pub u64);

/// A Unix user id: 0 to 4294967294.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UserId(pub u32);

macro_rules! display_number {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

display_number!(JobId, UserId, Limit);

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                $name(text.into())
            }
        }

        impl std::ops::Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type!(
    /// A bank of the accounting tree.
    BankName
);
name_type!(
    /// A queue of the Flux instance.
    QueueName
);
name_type!(
    /// A project of the accounting database.
    ProjectName
);

/// A cap of the accounting database: any 64-bit integer.
///
/// The database stores 2147483647 for unlimited, which acts as an ordinary large cap. A negative cap acts like 0. The tools
/// of the database accept negative caps, so if the plugin rejected a negative cap, no push would succeed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limit(pub i64);

impl Limit {
    /// Returns the cap, or 0 if it is negative.
    pub fn cap(self) -> u64 {
        self.0.max(0).unsigned_abs()
    }

    /// Returns true if the cap is the database's value for unlimited, or more.
    pub fn is_unlimited(self) -> bool {
        self.0 >= i64::from(i32::MAX)
    }

    /// Returns the cap, or `None` if it is unlimited.
    pub fn finite_cap(self) -> Option<u64> {
        (!self.is_unlimited()).then(|| self.cap())
    }

    /// Returns true if `used` plus `more` does not exceed the cap.
    pub fn admits(self, used: u64, more: u64) -> bool {
        used.saturating_add(more) <= self.cap()
    }
}

#[cfg(test)]
mod tests {
    use super::{BankName, JobId, Limit, UserId};

    #[test]
    fn a_limit_admits_up_to_its_cap() {
        for (limit, used, more, admits) in [
            (0, 0, 0, true),
            (0, 0, 1, false),
            (2, 1, 1, true),
            (2, 2, 1, false),
            (-5, 0, 1, false),
            (999, 998, 1, true),
            (i64::MAX, u64::MAX, 1, false),
            (2_147_483_647, 2_147_483_646, 1, true),
        ] {
            assert_eq!(Limit(limit).admits(used, more), admits, "{limit} {used} {more}");
        }
    }

    #[test]
    fn ids_and_limits_print_the_number_or_name() {
        let printed = format!("{} {} {} {}", JobId(7), UserId(5001), BankName::from("A"), Limit(-2));
        assert_eq!(printed, "7 5001 A -2");
    }
}
