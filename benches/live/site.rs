// SPDX-License-Identifier: LGPL-3.0-only
//! Creates the parts of a push for a site of any size.

use fairshare::accrual::HalfLife;
use fairshare::periods::Weights;
use fairshare::{Options, Policy, Shares};
use fairshare_benches::random::Random;
use fairshare_benches::records;
use fairshare_engine::accounts::{AssociationRecord, PolicyPart};
use fairshare_engine::ids::UserId;
use fairshare_engine::standing::{Bank, Leaf, Rule, SitePart, Watermark};

/// The time when the benchmark starts, in seconds since 1970.
pub const T0: f64 = 1.7e9;
/// Number of seconds in a day.
pub const DAY: f64 = 86_400.0;
/// Number of records in one part of a push.
pub const PART: usize = 1000;
const USERS_OF_BANK: usize = 50;

fn bank_of(user: usize) -> String {
    format!("bank{:04}", user / USERS_OF_BANK)
}

fn record(user: usize) -> AssociationRecord {
    records::record(user as u32, &bank_of(user), 2_147_483_647)
}

/// Returns a random number from 0 to below 1.
fn random_fraction(random: &mut Random) -> f64 {
    random.below(1 << 53) as f64 / (1u64 << 53) as f64
}

/// Returns the shares of a user. The shares of a bank are the sum of its users' shares. So the normalized shares of a
/// user are the user's shares divided by the sum over all users.
fn shares_of(user: usize) -> u64 {
    1 + (user as u64 * 7919) % 9
}

/// Creates a site with `users` users, `active` of which have usage. Their usage is close to their shares.
pub fn site(
    users: usize,
    active: usize,
    policy: Policy,
    nodes: f64,
    half_life: f64,
) -> Vec<(PolicyPart, SitePart)> {
    let mut random = Random(users as u64);
    let rule = Rule {
        instant: T0,
        half_life: HalfLife::new(half_life).unwrap_or(HalfLife::NONE),
        reset: 2_419_200.0,
        weights: Weights::default(),
        policy,
        options: Options::default(),
        replaces_all: false,
    };
    let mut banks =
        vec![Bank { name: "root".into(), parent: None, shares: Shares::Count(1), usage: None, active: true }];
    banks.extend((0..users).step_by(USERS_OF_BANK).map(|first| Bank {
        name: bank_of(first).as_str().into(),
        parent: Some("root".into()),
        shares: Shares::Count((first..users.min(first + USERS_OF_BANK)).map(shares_of).sum()),
        usage: None,
        active: true,
    }));
    let all: u64 = (0..users).filter(|user| is_active(*user, users, active)).map(shares_of).sum();
    // The usage after a very long time in which jobs ran on all nodes.
    let total = nodes * half_life / 2f64.ln();
    let mut leaf = |user: usize| Leaf {
        user: Some(UserId(user as u32)),
        name: format!("u{user:06}").into(),
        bank: bank_of(user).as_str().into(),
        shares: Shares::Count(shares_of(user)),
        active: true,
        usage: is_active(user, users, active).then(|| {
            total * shares_of(user) as f64 / all as f64 * (0.9 + 0.2 * random_fraction(&mut random))
        }),
        counted: Watermark::through(T0),
    };
    let mut parts = vec![(
        PolicyPart {
            queues: Some(Vec::new()),
            projects: Some(vec!["*".into()]),
            banks: Some(Vec::new()),
            weights: Some(vec![("fairshare".to_owned(), 100_000)]),
            ..PolicyPart::default()
        },
        SitePart { rule: Some(rule), banks, ..SitePart::default() },
    )];
    for first in (0..users).step_by(PART) {
        let part = first..users.min(first + PART);
        let records =
            PolicyPart { associations: Some(part.clone().map(record).collect()), ..PolicyPart::default() };
        parts
            .push((records, SitePart { associations: part.map(&mut leaf).collect(), ..SitePart::default() }));
    }
    parts
}

/// Returns true if a user is active. The active users are distributed evenly over all banks.
pub fn is_active(user: usize, users: usize, active: usize) -> bool {
    user * active / users != (user + 1) * active / users
}
