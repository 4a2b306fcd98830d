// SPDX-License-Identifier: LGPL-3.0-only
//! Compares the answers to queries with values that were computed by hand.

use super::host::Host;
use super::live::{accounts, leaf, make_host_with_live_fairshare, tree};
use super::site::{HostJob, NOW, UNLIMITED, association, queue, record};
use crate::accounts::{Association, AssociationRecord, Queue, SiteRecords};
use crate::engine::Event;
use crate::engine::answers::{
    self, AssociationFilter, JobFilter, JobSelection, Open, PageFilter, PrioritiesPage, priorities,
};
use crate::ids::{JobId, Limit, UserId};
use crate::standing::SitePart;
use fairshare::Policy;

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}

/// Returns a host with banks A and B, which have shares of 1 and 3, and with bank C below A. Users 7 and 8 have shares of 2 and 1 in A, and
/// user 7 is also in B.
fn make_site() -> Host {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let mut leaves = vec![leaf(7, "A", 5.0, 0.0), leaf(8, "A", 9.0, 0.0), leaf(7, "B", 100.0, 0.0)];
    leaves[0].shares = 2;
    let SitePart { rule, mut banks, .. } = tree(Policy::FairTree, host.now, Vec::new());
    banks[2].shares = 3;
    let mut below = banks[1].clone();
    (below.name, below.parent) = ("C".into(), Some("A".into()));
    banks.push(below);
    host.send_event(Event::Policy(
        accounts(),
        SitePart { rule, banks, associations: leaves, ..SitePart::default() },
    ));
    host
}

#[test]
fn the_statistics_contain_shares_and_usages_of_all_banks() {
    let host = make_site();
    let stats = host.stats();
    for (bank, parent, promised, shares_part, usage, usage_part, associations) in [
        ("root", None, 1.0, 1.0, 114.0, 1.0, 0),
        ("A", Some("root"), 0.25, 0.25, 14.0, 14.0 / 114.0, 2),
        ("B", Some("root"), 0.75, 0.75, 100.0, 100.0 / 114.0, 1),
        ("C", Some("A"), 0.0625, 0.25, 0.0, 0.0, 0),
    ] {
        let answer = stats.banks.iter().find(|it| it.bank == bank).unwrap();
        assert_eq!((answer.parent.as_deref(), answer.associations), (parent, associations), "{bank}");
        let parts = [answer.promised, answer.shares_part, answer.usage, answer.usage_part, answer.delivered];
        let wanted = [promised, shares_part, usage, usage_part, usage / 114.0];
        assert!(
            parts.iter().zip(wanted).all(|(one, other)| is_near(*one, other)),
            "{bank}: {parts:?} {wanted:?}"
        );
    }
}

#[test]
fn association_answers_contain_the_tree_levels_and_all_associations_in_pages() {
    let mut host = make_site();
    let wanted =
        AssociationFilter { user: Some(UserId(8)), bank: None, after: None, most: 9, open: Open::All };
    let answer = answers::standings(&host.engine.view(), &wanted, host.now);
    let levels = &answer.associations[0].levels;
    let part = |value: Option<f64>, wanted: Option<f64>| match (value, wanted) {
        (Some(value), Some(wanted)) => is_near(value, wanted),
        (value, wanted) => value == wanted,
    };
    for (at, name, shares, usage, usage_part, even, even_at) in [
        (0, "root", None, 114.0, None, None, None),
        (1, "A", Some(0.25), 14.0, Some(14.0 / 114.0), Some(100.0 / 3.0), None),
        // The siblings of user 8 have three quarters of the shares and a usage of 5. User 8 has one quarter of the
        // shares. So with a usage of 5/3, user 8 would have used exactly its share.
        (
            2,
            "8",
            Some(0.25),
            9.0,
            Some(9.0 / 14.0),
            Some(5.0 / 3.0),
            Some((9.0f64 / (5.0 / 3.0)).log2() * 1000.0),
        ),
    ] {
        let level = &levels[at];
        assert_eq!(level.node.name, name);
        if at > 0 {
            assert!(part(level.node.shares_part, shares), "{name}: {:?}", level.node.shares_part);
            assert!(part(level.even_usage, even), "{name}: {:?}", level.even_usage);
            assert!(part(level.even_at.map(|at| at - host.now), even_at), "{name}: {:?}", level.even_at);
        }
        assert!(part(level.node.usage_part, usage_part), "{name}: {:?}", level.node.usage_part);
        assert!(is_near(level.node.usage, usage), "{name}: {}", level.node.usage);
    }
    assert!(!levels[1].is_worst && levels[2].is_worst);
    let names = |at: usize| levels[at].siblings.iter().map(|it| it.name.as_str()).collect::<Vec<_>>();
    let mut in_bank = names(2);
    in_bank.sort_unstable();
    assert_eq!((names(1), in_bank, levels[2].siblings_total), (vec!["B"], vec!["7", "C"], 2));
    assert_eq!(levels[2].siblings.iter().find(|it| it.name == "7").unwrap().userid, Some(UserId(7)));
    // Pages with one association each must list all associations, in order.
    let mut all = Vec::new();
    let mut after = None;
    for _ in 0..4 {
        let wanted = AssociationFilter { user: None, bank: None, after, most: 1, open: Open::Own };
        let page = answers::standings(&host.engine.view(), &wanted, host.now);
        all.extend(page.associations.iter().map(|it| (it.userid.0, it.bank.to_string())));
        after = page.next.map(|(user, bank)| (user, bank.to_string()));
        if after.is_none() {
            break;
        }
    }
    let pairs =
        |all: &[(u32, &str)]| all.iter().map(|(user, bank)| (*user, (*bank).to_owned())).collect::<Vec<_>>();
    assert_eq!(all, pairs(&[(7, "A"), (7, "B"), (8, "A")]));
    for (user, bank, after, wanted) in [
        (Some(7), Some("B"), None, vec![(7, "B")]),
        (None, Some("A"), None, vec![(7, "A"), (8, "A")]),
        (Some(7), None, Some((7, "A")), vec![(7, "B")]),
        (Some(7), None, Some((7, "B")), vec![]),
        (None, None, Some((7, "A")), vec![(7, "B"), (8, "A")]),
    ] {
        let after = after.map(|(user, bank): (u32, &str)| (UserId(user), bank.to_owned()));
        let (user, bank) = (user.map(UserId), bank.map(str::to_owned));
        let page = answers::standings(
            &host.engine.view(),
            &AssociationFilter { user, bank, after, most: 9, open: Open::Own },
            host.now,
        );
        let answer: Vec<(u32, String)> =
            page.associations.iter().map(|it| (it.userid.0, it.bank.to_string())).collect();
        assert_eq!((answer, page.next), (pairs(&wanted), None));
    }
    // The answer contains a removed association as long as it has jobs.
    let id = host.submit(HostJob::new(7).bank("B")).unwrap();
    let mut less_accounts = accounts();
    less_accounts.associations.retain(|it| it.association.bank.as_str() == "A");
    host.send_event(Event::Policy(less_accounts, SitePart::default()));
    let flags_of_7 = |host: &Host| {
        let wanted =
            AssociationFilter { user: Some(UserId(7)), bank: None, after: None, most: 9, open: Open::Own };
        let page = answers::standings(&host.engine.view(), &wanted, host.now);
        page.associations.iter().map(|it| (it.is_removed, it.is_default)).collect::<Vec<_>>()
    };
    assert_eq!(flags_of_7(&host), [(false, true), (true, false)]);
    let page = PageFilter { after: None, user: Some(UserId(7)), most: 9, most_held: 9 };
    let removed = |host: &Host, user| {
        let wanted = PageFilter { user: Some(UserId(user)), ..page.clone() };
        answers::page(&host.engine.view(), &wanted).removed.map(|removed| removed.len())
    };
    assert_eq!([removed(&host, 7), removed(&host, 8)], [Some(1), Some(0)]);
    host.end_job(id);
    assert_eq!((flags_of_7(&host), removed(&host, 7)), (vec![(false, true)], Some(0)));
}

#[test]
fn an_answer_shows_a_cap_of_0_or_less_on_active_jobs_as_unlimited() {
    for (most, shown) in [(3, Some(3)), (0, None), (-1, None), (2_147_483_647, None)] {
        let records = vec![record(Association { max_active_jobs: Limit(most), ..association(7, "A") }, "A")];
        let mut host = Host::with_data(records, Vec::new());
        host.submit(HostJob::new(7)).unwrap();
        let wanted = AssociationFilter { user: None, bank: None, after: None, most: 9, open: Open::Own };
        let page = answers::standings(&host.engine.view(), &wanted, host.now);
        let (jobs, limit) = (&page.associations[0].jobs, &page.associations[0].limits[0]);
        assert_eq!((&*limit.limit, limit.used), ("max-active-jobs", Some(1)));
        assert_eq!((jobs.max_active, limit.cap), (shown, shown), "{most}");
    }
}

#[test]
fn a_page_ends_at_the_requested_number_of_associations_or_held_jobs() {
    let records = vec![
        record(Association { max_sched_jobs: Limit(0), ..association(7, "A") }, "A"),
        record(association(7, "B"), "A"),
        record(association(8, "A"), "A"),
    ];
    let mut host = Host::with_data(records, Vec::new());
    for _ in 0..2 {
        host.submit(HostJob::new(7)).unwrap();
    }
    for (after, user, most, most_held, wanted, is_last) in [
        (None, None, 9, 9, vec![7, 7, 8], true),
        (None, None, 2, 9, vec![7, 7], false),
        (None, None, 3, 9, vec![7, 7, 8], true),
        (None, None, 9, 2, vec![7], false),
        (None, None, 9, 3, vec![7, 7, 8], true),
        (None, Some(7), 9, 9, vec![7, 7], true),
        (None, Some(8), 9, 9, vec![8], true),
        (Some((7, "A")), Some(7), 9, 9, vec![7], true),
    ] {
        let after = after.map(|(user, bank): (u32, &str)| (UserId(user), bank.to_owned()));
        let page = answers::page(
            &host.engine.view(),
            &PageFilter { after, user: user.map(UserId), most, most_held },
        );
        let users: Vec<u32> = page.users.iter().flat_map(|it| vec![it.userid.0; it.banks.len()]).collect();
        assert_eq!((users, page.removed.is_some()), (wanted, is_last), "{most} {most_held} {user:?}");
        assert_eq!(page.generation, host.engine.view().generation());
    }
}

#[test]
fn a_reply_to_standing_lists_each_limit_with_its_used_amount() {
    let own_association =
        Association { max_running_jobs: Limit(2), max_active_jobs: Limit(9), ..association(7, "A") };
    let capped = Queue { max_nodes_per_assoc: Limit(6), ..queue("q1") };
    let mut host = Host::with_data(vec![record(own_association, "A")], vec![capped, queue("q2")]);
    host.run_new_job(HostJob::new(7).queue("q1").size(2, 3));
    host.submit(HostJob::new(7).queue("q2")).unwrap();
    let wanted = AssociationFilter { user: None, bank: None, after: None, most: 9, open: Open::Own };
    let answer = answers::standings(&host.engine.view(), &wanted, host.now).associations.remove(0);
    assert_eq!((answer.jobs.active, answer.jobs.held, answer.jobs.pending), (2, 0, 1));
    assert_eq!((answer.jobs.running, answer.jobs.nodes, answer.jobs.cores), (1, 2, 3));
    assert!(answer.is_default && !answer.is_removed && answer.rank.is_none());
    let shown: Vec<_> = answer
        .limits
        .iter()
        .filter(|it| it.cap.is_some() || it.queue.is_some())
        .map(|it| (it.limit.clone(), it.queue.as_deref(), it.measure.clone(), it.used.unwrap(), it.cap))
        .collect();
    assert!(shown.contains(&("max-active-jobs".into(), None, "jobs".into(), 2, Some(9))), "{shown:?}");
    assert!(
        shown.contains(&("max-running-jobs-user-limit".into(), None, "jobs".into(), 1, Some(2))),
        "{shown:?}"
    );
    assert!(
        shown.contains(&("max-resources-queue".into(), Some("q1"), "nodes".into(), 2, Some(6))),
        "{shown:?}"
    );
    // The answer contains a limit of a queue only if it has a cap or is in use.
    let of_queues: Vec<_> = shown.iter().filter(|it| it.1.is_some()).collect();
    assert!(of_queues.iter().all(|it| it.3 > 0 || it.4.is_some()), "{of_queues:?}");
    assert!(of_queues.iter().any(|it| it.1 == Some("q2") && it.4.is_none()), "{of_queues:?}");
    assert_eq!(UNLIMITED.finite_cap(), None);
}

#[test]
fn the_statistics_contain_the_jobs_by_state_and_by_limit() {
    let own_association = Association { max_running_jobs: Limit(1), ..association(7, "A") };
    let mut host = Host::with_data(vec![record(own_association, "A")], vec![queue("q1")]);
    host.run_new_job(HostJob::new(7).queue("q1").size(2, 3));
    for _ in 0..2 {
        host.submit(HostJob::new(7).size(4, 5)).unwrap();
    }
    host.submit(HostJob::new(7).blocked_by("afterany:1")).unwrap();
    host.send_event(Event::Associations(vec![record(association(8, "A"), "A")]));
    host.submit(HostJob::new(8).size(7, 8)).unwrap();
    let stats = host.stats();
    let sums =
        |loads: &[answers::Load]| loads.iter().map(|it| (it.jobs, it.nodes, it.cores)).collect::<Vec<_>>();
    assert_eq!((sums(&stats.running), sums(&stats.pending)), (vec![(1, 2, 3)], vec![(1, 7, 8)]));
    assert_eq!(sums(&stats.held), [(3, 9, 11)]);
    let held_by_limit: Vec<_> = stats.held_by_limit.into_iter().filter(|(_, jobs)| *jobs > 0).collect();
    assert_eq!(held_by_limit, [("max-running-jobs-user-limit".into(), 3)]);
    assert_eq!((stats.jobs.live, stats.associations, stats.queues), (5, 2, 1));
}

#[test]
fn the_statistics_count_refreshes_and_their_posts() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let before = host.stats().refresh;
    let ids = [7, 8].map(|user| host.submit(HostJob::new(user)).unwrap());
    host.start_job(ids[0]);
    host.advance_time_and_refresh(500.0);
    host.advance_time_and_refresh(500.0);
    let after = host.stats().refresh;
    assert_eq!(after.total, before.total + 2);
    assert!(after.touched_total >= before.touched_total);
    assert_eq!(host.engine.view().settings(), &crate::engine::Settings::default());
}

#[test]
fn the_position_of_a_job_counts_pending_jobs_of_its_scheduler_queue() {
    let mut host = Host::with_data(
        vec![record(association(7, "A"), "A"), record(association(8, "A"), "A")],
        vec![queue("q1"), queue("q2")],
    );
    host.send_event(Event::ConfiguredQueues(vec![("q1".into(), None), ("q2".into(), Some("q1".into()))]));
    let mut submit = |job: HostJob| host.submit(job).unwrap();
    let [low, equal, high_job, off_job] = [(7, "q1"), (8, "q1"), (8, "q2"), (7, "q1")]
        .map(|(user, queue)| submit(HostJob::new(user).queue(queue)));
    let alone = submit(HostJob::new(8));
    host.set_urgency(high_job, 20);
    host.set_urgency(off_job, 0);
    let places = |host: &Host, wanted: JobFilter| -> Vec<_> {
        let page = answers::jobs_page(&host.engine.view(), &wanted, host.now);
        page.jobs.iter().map(|job| (job.id, job.place.map(|line| (line.place, line.of)))).collect()
    };
    let all = || JobFilter { most: 9, ..JobFilter::default() };
    let by_queue = [
        (low, Some((2, 3))),
        (equal, Some((3, 3))),
        (high_job, Some((1, 3))),
        (off_job, None),
        (alone, Some((1, 1))),
    ];
    assert_eq!(places(&host, all()), by_queue, "virtual queue q2 is part of q1");
    let page = places(&host, JobFilter { after: Some(low), most: 1, ..all() });
    assert_eq!(page, by_queue[1..2], "jobs outside of the page count too");
    host.send_event(Event::OneQueueList(true));
    let in_one_list =
        [(low, 2), (equal, 3), (high_job, 1), (alone, 4)].map(|(id, place)| (id, Some((place, 4))));
    let listed: Vec<_> = places(&host, all()).into_iter().filter(|(id, _)| *id != off_job).collect();
    assert_eq!(listed, in_one_list);
    host.start_job(high_job);
    assert_eq!(places(&host, JobFilter { ids: Some(vec![low, high_job]), ..all() }), [(low, Some((1, 3)))]);
}

#[test]
fn answers_and_statistics_do_not_count_jobs_of_urgency_0_as_pending() {
    let mut host = make_site();
    let [pending_job, off_job] = [7, 7].map(|user| host.submit(HostJob::new(user)).unwrap());
    let count = |host: &Host| {
        let view = host.engine.view();
        let wanted =
            AssociationFilter { user: Some(UserId(7)), bank: None, after: None, most: 9, open: Open::Own };
        let standing = answers::standings(&view, &wanted, host.now);
        let heading = answers::Heading::new(&view, host.now, None);
        let stats = answers::stats(&view, heading).jobs;
        let ids = JobFilter { ids: Some(vec![pending_job]), most: 1, ..JobFilter::default() };
        let place = answers::jobs_page(&view, &ids, host.now).jobs[0].place.unwrap();
        let in_standing = standing.associations.iter().map(|it| it.jobs.pending).sum::<u64>();
        (in_standing, stats.pending, stats.blocked, place.of)
    };
    assert_eq!(count(&host), (2, 2, 0, 2));
    host.set_urgency(off_job, 0);
    assert_eq!(count(&host), (1, 1, 1, 1));
    host.set_urgency(off_job, 16);
    assert_eq!(count(&host), (2, 2, 0, 2));
}

#[test]
fn a_list_of_jobs_contains_the_requested_jobs() {
    let records = vec![
        record(Association { max_running_jobs: Limit(1), ..association(7, "A") }, "A"),
        record(association(7, "B"), "A"),
        record(association(8, "A"), "A"),
    ];
    let mut host = Host::with_data(records, vec![queue("q1"), queue("q2")]);
    let first_job = host.run_new_job(HostJob::new(7));
    let held = host.submit(HostJob::new(7).queue("q1")).unwrap();
    let blocked = host.submit(HostJob::new(8).blocked_by("afterany:1")).unwrap();
    let other_bank = host.submit(HostJob::new(7).bank("B").queue("q2")).unwrap();
    let unknown_job = host.submit(HostJob::new(8).queue("q1")).unwrap();
    let all = || JobFilter { most: 9, ..JobFilter::default() };
    let text = |text: &str| Some(text.to_owned());
    for (what, wanted, ids) in [
        ("all", all(), vec![held, blocked, other_bank, unknown_job]),
        ("after", JobFilter { after: Some(blocked), ..all() }, vec![other_bank, unknown_job]),
        (
            "ids",
            JobFilter { ids: Some(vec![unknown_job, held, first_job, held]), ..all() },
            vec![held, unknown_job],
        ),
        (
            "ids after",
            JobFilter { ids: Some(vec![unknown_job, held]), after: Some(held), ..all() },
            vec![unknown_job],
        ),
        ("user", JobFilter { user: Some(UserId(8)), ..all() }, vec![blocked, unknown_job]),
        (
            "user of ids",
            JobFilter { user: Some(UserId(8)), ids: Some(vec![held, blocked]), ..all() },
            vec![blocked],
        ),
        ("bank", JobFilter { bank: text("A"), ..all() }, vec![held, blocked, unknown_job]),
        ("queue", JobFilter { queue: text("q1"), ..all() }, vec![held, unknown_job]),
        ("bank and queue", JobFilter { bank: text("B"), queue: text("q1"), ..all() }, vec![]),
    ] {
        let page = answers::jobs_page(&host.engine.view(), &wanted, host.now);
        assert_eq!(page.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), ids, "{what}");
        assert_eq!(page.next, None, "{what}");
    }
    let page = answers::jobs_page(&host.engine.view(), &all(), host.now);
    let shown: Vec<_> = page
        .jobs
        .iter()
        .map(|job| (job.state.as_ref(), job.is_kept, job.weighing, job.holds.len()))
        .collect();
    let depend = |is_kept, holds| ("depend", is_kept, None, holds);
    let sched = ("sched", false, Some(0), 0);
    assert_eq!(shown, [depend(false, 1), depend(true, 0), sched, sched]);
    let names = answers::list_priority_term_names(&host.engine.view());
    assert_eq!(names, ["fairshare", "queue", "bank", "urgency", "age", "age_offset", "size"]);
    assert_eq!(page.weighings, [[100_000, 10_000, 0, 1_000, 0, 0, 0]]);
    host.send_event(Event::Weights(vec![("fairshare".to_owned(), 7)]));
    host.set_urgency(unknown_job, 17);
    let page = answers::jobs_page(&host.engine.view(), &all(), host.now);
    assert_eq!(page.jobs.iter().filter_map(|job| job.weighing).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(page.weighings.iter().map(|it| it[0]).collect::<Vec<_>>(), [100_000, 7]);
    // Pages that are restricted to a user and a queue miss no job, even if a page contains no job of that queue.
    for name in ["q1", "q1", "q2"] {
        host.submit(HostJob::new(8).queue(name)).unwrap();
    }
    let (mut after, mut got) = (None, 0);
    loop {
        let (user, queue) = (Some(UserId(8)), text("q2"));
        let page = answers::jobs_page(
            &host.engine.view(),
            &JobFilter { after, user, queue, most: 2, ..all() },
            host.now,
        );
        got += page.jobs.len();
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    assert_eq!(got, 1);
    let last = answers::jobs_page(
        &host.engine.view(),
        &JobFilter { user: Some(UserId(7)), most: 2, ..all() },
        host.now,
    );
    assert_eq!((last.jobs.len(), last.next), (2, None), "the page contains exactly the user's jobs");
    for (id, user, queue) in
        [(first_job, Some(7), None), (held, Some(7), Some(Some("q1"))), (blocked, Some(8), Some(None))]
    {
        assert_eq!(host.engine.view().user_of(id), user.map(UserId));
        let answer =
            host.engine.view().queue_of_unstarted_job(id).map(|queue| queue.map(|queue| queue.as_str()));
        assert_eq!(answer, queue);
    }
    assert_eq!(
        (host.engine.view().user_of(JobId(99)), host.engine.view().queue_of_unstarted_job(JobId(99))),
        (None, None)
    );
}

#[test]
fn each_guest_visibility_setting_has_a_name() {
    assert_eq!([Open::Own, Open::Banks, Open::All].map(Open::name), ["own", "banks", "all"]);
    let host = Host::with_data(
        vec![AssociationRecord { fairshare: 0.5, ..record(association(7, "A"), "A") }],
        vec![],
    );
    assert_eq!((host.engine.view().missing_array(), host.now), (Some("associations"), NOW));
}

#[test]
fn the_answer_to_priorities_has_the_documented_members() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let [first, second] = [7, 8].map(|user| host.submit(HostJob::new(user).bank("A")).unwrap());
    let select =
        |ids, after, most| priorities(&host.engine.view(), JobSelection { ids, after, most }, host.now);
    let page = select(None, None, 1);
    assert_eq!((page.jobs[0].id, page.next), (first, Some(first)));
    let selected = select(Some(vec![JobId(4711), second]), None, 2);
    assert_eq!((select(None, page.next, 9).jobs, None), (selected.jobs, selected.next));
    let posted = &page.jobs[0].posted;
    assert_eq!(
        (i64::from(posted.priority), posted),
        (host.jobs[&first].priority.unwrap(), &page.jobs[0].exact)
    );
    assert!(is_near(posted.terms.iter().map(|term| term.product).sum(), posted.sum));
    let document = serde_json::to_value(&page).unwrap();
    let names = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let job = &document["jobs"][0];
    assert_eq!(names(&document), ["jobs", "next"]);
    assert_eq!(names(job), ["exact", "generation", "id", "posted", "turn", "when"]);
    assert_eq!(names(&job["posted"]), ["priority", "sum", "terms"]);
    assert_eq!(names(&job["posted"]["terms"][0]), ["name", "product", "value", "weight"]);
    assert_eq!(serde_json::from_value::<PrioritiesPage>(document).unwrap(), page);
}

#[test]
fn a_preview_and_its_commit_report_the_same_difference() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let difference = |host: &Host, policy: &SiteRecords| {
        host.engine.difference(policy.clone(), SitePart::default()).unwrap()
    };
    let nothing = difference(&host, &accounts());
    let mut less_accounts = accounts();
    less_accounts.associations.pop();
    assert_ne!(difference(&host, &less_accounts), nothing);
    host.send_event(Event::PolicyBegin { keeps_config: false });
    assert!(host.engine.view().missing_array().is_some_and(|what| !what.is_empty() && what != "xyzzy"));
    let part = SiteRecords { arrays: SiteRecords::ARRAYS.into(), ..less_accounts.clone() };
    host.send_event(Event::PolicyPart(part, SitePart::default()));
    assert_eq!(host.engine.view().missing_array(), None);
    let wanted = difference(&host, &less_accounts);
    assert_eq!(host.engine.preview(host.now, 1).unwrap().changes.difference, wanted);
    host.send_event(Event::PolicyCommit);
    assert_eq!(host.engine.view().last_difference(), wanted);
}

#[test]
fn the_answers_use_the_settings_in_force() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let settings = crate::engine::Settings { annotate: true, ..Default::default() };
    host.send_event(Event::Settings(settings.clone()));
    assert_eq!(host.engine.view().settings(), &settings);
    host.submit(HostJob::new(7)).unwrap();
    host.submit(HostJob::new(7)).unwrap();
    let wanted =
        AssociationFilter { user: None, bank: Some("A".to_owned()), after: None, most: 9, open: Open::Own };
    let answer = answers::standings(&host.engine.view(), &wanted, host.now);
    assert_eq!(answer.associations.iter().map(|it| it.jobs.pending).collect::<Vec<_>>(), [2, 0]);
}
