// SPDX-License-Identifier: LGPL-3.0-only
//! Creates the parts of a push for a site of any size.

use fairshare::accrual::HalfLife;
use fairshare::periods::Weights;
use fairshare::{Options, Policy};
use fairshare_benches::random::Random;
use fairshare_benches::records;
use fairshare_engine::accounts::{AssociationRecord, SiteRecords};
use fairshare_engine::ids::UserId;
use fairshare_engine::standing::{Bank, Leaf, Rule, SitePart, Watermark};

/// The time when the benchmark starts, in seconds since 1970.
pub const T0: f64 = 1.7e9;
/// Number of seconds in a day.
pub const DAY: f64 = 86_400.0;
/// Number of records in one part of a push.
pub const PART_SIZE: usize = 1000;
const USERS_PER_BANK: usize = 50;

fn bank_name(user: usize) -> String {
    format!("bank{:04}", user / USERS_PER_BANK)
}

fn make_record(user: usize) -> AssociationRecord {
    records::make_record(user as u32, &bank_name(user), 2_147_483_647)
}

/// Returns a random number from 0 to below 1.
fn random_fraction(random: &mut Random) -> f64 {
    random.generate_number_below(1 << 53) as f64 / (1u64 << 53) as f64
}

/// Returns the shares of a user. The shares of a bank are the sum over its users, so the normalized shares of a user are
/// the user's shares divided by the sum over all users.
fn user_shares(user: usize) -> u64 {
    1 + (user as u64 * 7919) % 9
}

/// Creates the parts of a push for a site with `users` users, `active` of which have usage. Their usage is close to their
/// shares.
pub fn make_push(
    users: usize,
    active: usize,
    policy: Policy,
    nodes: f64,
    half_life: f64,
) -> Vec<(SiteRecords, SitePart)> {
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
    let mut banks = vec![Bank { name: "root".into(), parent: None, shares: 1, active: true }];
    banks.extend((0..users).step_by(USERS_PER_BANK).map(|first| Bank {
        name: bank_name(first).as_str().into(),
        parent: Some("root".into()),
        shares: (first..users.min(first + USERS_PER_BANK)).map(user_shares).sum(),
        active: true,
    }));
    let active_shares: u64 = (0..users).filter(|user| is_active(*user, users, active)).map(user_shares).sum();
    // The decayed usage of a site after jobs have run on all nodes for many half-lives.
    let site_usage = nodes * half_life / 2f64.ln();
    let mut make_leaf = |user: usize| Leaf {
        user: Some(UserId(user as u32)),
        name: format!("u{user:06}").into(),
        bank: bank_name(user).as_str().into(),
        shares: user_shares(user),
        active: true,
        usage: is_active(user, users, active).then(|| {
            site_usage * user_shares(user) as f64 / active_shares as f64
                * (0.9 + 0.2 * random_fraction(&mut random))
        }),
        counted: Watermark::through(T0),
    };
    let mut parts = vec![(
        SiteRecords {
            projects: vec!["*".into()],
            weights: vec![("fairshare".to_owned(), 100_000)],
            ..SiteRecords::default()
        },
        SitePart { rule: Some(rule), banks, ..SitePart::default() },
    )];
    for first in (0..users).step_by(PART_SIZE) {
        let users = first..users.min(first + PART_SIZE);
        let records =
            SiteRecords { associations: users.clone().map(make_record).collect(), ..SiteRecords::default() };
        parts.push((
            records,
            SitePart { associations: users.map(&mut make_leaf).collect(), ..SitePart::default() },
        ));
    }
    parts
}

/// Returns true if a user is active. The active users are distributed evenly over all banks.
pub fn is_active(user: usize, users: usize, active: usize) -> bool {
    user * active / users != (user + 1) * active / users
}
