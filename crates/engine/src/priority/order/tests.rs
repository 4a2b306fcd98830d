// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of plans. The tests sort all jobs to check the order, and try all sets of jobs to find the smallest plan.

use proptest::prelude::*;

use super::*;
use crate::ids::QueueName;

fn make_job(id: u64, posted: u32, current: u32) -> PendingJob {
    PendingJob { id: JobId(id), posted, current, is_incomparable: false }
}

fn make_job_without_comparable_priority(id: u64, posted: u32, current: u32) -> PendingJob {
    PendingJob { is_incomparable: true, ..make_job(id, posted, current) }
}

/// Returns the ids of `jobs` by descending `priority`, and by ascending id if priorities are equal.
fn sort_ids(jobs: &[PendingJob], priority: impl Fn(&PendingJob) -> u32) -> Vec<JobId> {
    let mut jobs = jobs.to_vec();
    jobs.sort_by(|a, b| priority(b).cmp(&priority(a)).then(a.id.cmp(&b.id)));
    jobs.iter().map(|job| job.id).collect()
}

/// Returns true if `priority` is the priority of held jobs or of expedited jobs.
fn is_special(priority: u32) -> bool {
    priority == 0 || priority == u32::MAX
}

/// Posts the current priorities of the jobs for which `is_posted` is true. Returns true if the first `depth` jobs are
/// then in the correct order, and no stale priority is 0 or the maximum.
fn is_correct(jobs: &[PendingJob], is_posted: impl Fn(&PendingJob) -> bool, depth: usize) -> bool {
    let after: Vec<PendingJob> = jobs
        .iter()
        .map(|job| if is_posted(job) { PendingJob { posted: job.current, ..*job } } else { *job })
        .collect();
    let take_head = |ids: Vec<JobId>| ids.into_iter().take(depth).collect::<Vec<_>>();
    let are_specials_current = after
        .iter()
        .all(|job| job.posted == job.current || !is_special(job.posted) && !is_special(job.current));
    are_specials_current
        && take_head(sort_ids(&after, |job| job.posted)) == take_head(sort_ids(&after, |job| job.current))
}

/// Returns true if none of the first `depth` jobs keeps an incomparable stale priority after the plan is applied.
fn are_first_priorities_comparable(
    jobs: &[PendingJob],
    is_posted: impl Fn(&PendingJob) -> bool,
    depth: usize,
) -> bool {
    let mut jobs = jobs.to_vec();
    jobs.sort_by(|a, b| b.current.cmp(&a.current).then(a.id.cmp(&b.id)));
    jobs.iter().take(depth).all(|job| !job.is_incomparable || !job.is_stale() || is_posted(job))
}

/// Tries all sets of jobs to post. Returns the number of jobs in the smallest set that gives a correct order.
fn find_smallest_number_of_posts(jobs: &[PendingJob], depth: usize) -> usize {
    (0u32..1 << jobs.len())
        .filter(|set| {
            let is_posted = |job: &PendingJob| set >> job.id.0 & 1 == 1;
            is_correct(jobs, is_posted, depth) && are_first_priorities_comparable(jobs, is_posted, depth)
        })
        .map(u32::count_ones)
        .min()
        .expect("posting all jobs gives a correct order") as usize
}

fn any_priority() -> impl Strategy<Value = u32> {
    prop_oneof![12 => 1..9u32, 1 => Just(0), 1 => Just(u32::MAX)]
}

fn any_jobs(most: usize) -> impl Strategy<Value = Vec<PendingJob>> {
    let any_job = (any_priority(), prop::option::of(any_priority()), prop::bool::weighted(0.2));
    prop::collection::vec(any_job, 0..most).prop_map(|generated| {
        let numbered = generated.into_iter().enumerate();
        let number_job = |(id, (posted, current, is_incomparable)): (usize, (u32, Option<u32>, bool))| {
            PendingJob { is_incomparable, ..make_job(id as u64, posted, current.unwrap_or(posted)) }
        };
        numbered.map(number_job).collect()
    })
}

fn make_set_of_pending_jobs(jobs: &[PendingJob]) -> Pending<()> {
    let mut pending = Pending::default();
    for &job in jobs {
        pending.put(None, job, ());
    }
    pending
}

const UNLIMITED_DEPTH: usize = usize::MAX;

#[test]
fn small_queues_have_the_expected_posting_plans() {
    for (what, jobs, depth, touch) in [
        ("no priority is stale", vec![make_job(1, 5, 5), make_job(2, 4, 4)], UNLIMITED_DEPTH, vec![]),
        (
            "all are stale in the same order",
            vec![make_job(1, 50, 40), make_job(2, 30, 20), make_job(3, 10, 5)],
            UNLIMITED_DEPTH,
            vec![],
        ),
        (
            "two jobs change places",
            vec![make_job(1, 50, 40), make_job(2, 45, 45)],
            UNLIMITED_DEPTH,
            vec![(1, 40)],
        ),
        (
            "equal priorities, the earlier id first",
            vec![make_job(1, 50, 40), make_job(2, 40, 40)],
            UNLIMITED_DEPTH,
            vec![],
        ),
        (
            "equal priorities, the later id first",
            vec![make_job(2, 50, 40), make_job(1, 40, 40)],
            UNLIMITED_DEPTH,
            vec![(2, 40)],
        ),
        (
            "stale jobs behind the head",
            vec![make_job(1, 9, 9), make_job(2, 8, 5), make_job(3, 7, 6)],
            1,
            vec![],
        ),
        (
            "a job enters the head",
            vec![make_job(1, 9, 9), make_job(2, 8, 10), make_job(3, 7, 6)],
            1,
            vec![(2, 10)],
        ),
        (
            "a posted priority is in the head, the current one is not",
            vec![make_job(1, 9, 9), make_job(2, 12, 5), make_job(3, 7, 6)],
            1,
            vec![(2, 5)],
        ),
        (
            "held jobs are posted at any depth",
            vec![make_job(1, 9, 9), make_job(2, 8, 0), make_job(3, 0, 6)],
            1,
            vec![(3, 6), (2, 0)],
        ),
        (
            "one job rises above two that fall",
            vec![make_job(1, 5, 9), make_job(2, 6, 1), make_job(3, 6, 1)],
            1,
            vec![(1, 9)],
        ),
        (
            "expedited jobs are posted at any depth",
            vec![make_job(1, 9, 9), make_job(2, u32::MAX, 3)],
            0,
            vec![(2, 3)],
        ),
    ] {
        let posts: Vec<_> = fewest_posts(&jobs, depth).iter().map(|job| (job.id.0, job.current)).collect();
        assert_eq!(posts, touch, "{what}");
    }
}

#[test]
fn queues_share_the_budget_of_priorities_that_a_refresh_may_post() {
    let mut pending = Pending::default();
    let (debug, batch) = (QueueName::from("debug"), QueueName::from("batch"));
    // The current priorities reverse the order of each queue. The queue batch has 100 jobs, and the queue debug has 10 jobs.
    for id in 0..10 {
        pending.put(Some(&debug), make_job(id, 100 + id as u32, 200 - id as u32), ());
    }
    for id in 10..110 {
        pending.put(Some(&batch), make_job(id, 100 + id as u32, 400 - id as u32), ());
    }
    assert_eq!(pending.stale_count(), 110);
    let plan = pending.plan(Bounds { depth: 50, budget: 30, refreshes_stale: false });
    assert!(plan.jobs_to_post.len() <= 30 && plan.jobs_to_post.iter().any(|(id, _)| id.0 < 10), "{plan:?}");
    assert!(plan.correct_depth.is_some_and(|to| to < 50));
    // The remaining stale priorities are posted in later rounds.
    let mut rounds = 0;
    loop {
        let plan = pending.plan(Bounds { depth: 50, budget: 30, refreshes_stale: false });
        for &(id, priority) in &plan.jobs_to_post {
            assert_eq!(pending.get(id).map(|(job, _)| job.current), Some(priority));
            pending.set_posted_priority(id, priority, ());
        }
        assert_eq!(pending.stale_count(), plan.stale);
        rounds += 1;
        if plan.correct_depth.is_none() {
            break;
        }
    }
    assert!((2..=4).contains(&rounds), "{rounds}");
    assert!(pending.plan(Bounds { depth: 50, budget: 30, refreshes_stale: false }).jobs_to_post.is_empty());
}

/// 100 jobs at the head of a queue must fall behind job 200. Each plan may post 30 jobs.
#[test]
fn several_posting_plans_order_a_queue_head_that_exceeds_one_budget() {
    let mut pending = Pending::default();
    for id in 0..100 {
        pending.put(None, make_job(id, 1_000 - id as u32, 500 - id as u32), ());
    }
    pending.put(None, make_job(200, 600, 600), ());
    for (stale, correct_depth, last_id) in
        [(70, Some(0), 99), (40, Some(0), 69), (10, Some(0), 39), (0, None, 9)]
    {
        let plan = pending.plan(Bounds { depth: 50, budget: 30, refreshes_stale: false });
        let last = plan.jobs_to_post.iter().map(|(id, _)| id.0).max();
        assert_eq!((plan.stale, plan.correct_depth, last), (stale, correct_depth, Some(last_id)));
        for &(id, priority) in &plan.jobs_to_post {
            pending.set_posted_priority(id, priority, ());
        }
    }
}

/// If both jobs are in one queue, job 2 overtakes job 1, so job 2 must get a new posted priority. In separate queues
/// no new priority is needed.
#[test]
fn a_moved_job_is_compared_with_its_new_queue() {
    let [a, b] = ["a", "b"].map(QueueName::from);
    let mut pending = Pending::default();
    let list_posts = |pending: &Pending<()>| {
        pending
            .plan(Bounds { depth: UNLIMITED_DEPTH, budget: UNLIMITED_DEPTH, refreshes_stale: false })
            .jobs_to_post
            .iter()
            .map(|(id, _)| id.0)
            .collect::<Vec<_>>()
    };
    pending.put(Some(&a), make_job(1, 5, 5), ());
    pending.put(Some(&b), make_job(2, 5, 9), ());
    assert_eq!(list_posts(&pending), [0u64; 0]);
    pending.put(Some(&a), make_job(2, 5, 9), ());
    assert_eq!(list_posts(&pending), [2]);
    pending.put(Some(&b), make_job(2, 5, 9), ());
    assert_eq!(list_posts(&pending), [0u64; 0]);
}

/// All priorities rise or fall by the same amount, so the order is correct already. The plan must still post the
/// incomparable priorities at the head of the queue.
#[test]
fn a_posting_plan_posts_priorities_on_an_old_scale_for_head_jobs() {
    let risen_jobs = [
        make_job_without_comparable_priority(1, 50, 150),
        make_job_without_comparable_priority(2, 40, 140),
        make_job_without_comparable_priority(3, 30, 130),
    ];
    let fallen_jobs = [
        make_job_without_comparable_priority(1, 150, 50),
        make_job_without_comparable_priority(2, 140, 40),
        make_job_without_comparable_priority(3, 130, 30),
    ];
    let jobs_with_one_overtaken = [
        make_job_without_comparable_priority(1, 150, 50),
        make_job_without_comparable_priority(2, 140, 40),
        make_job_without_comparable_priority(3, 130, 45),
    ];
    let reversed_jobs = [
        make_job_without_comparable_priority(1, 110, 50),
        make_job_without_comparable_priority(2, 120, 40),
        make_job_without_comparable_priority(3, 130, 30),
    ];
    let jobs_with_holds = [
        make_job_without_comparable_priority(1, 150, 50),
        make_job_without_comparable_priority(2, 140, 40),
        make_job_without_comparable_priority(3, 130, 0),
        make_job_without_comparable_priority(4, 120, 0),
    ];
    for (what, jobs, depth, budget, touch, correct_depth) in [
        ("the head", &risen_jobs[..], 2, 2, vec![1, 2], None),
        ("a part of the head", &risen_jobs, 2, 1, vec![1], Some(1)),
        ("all jobs within the budget", &risen_jobs, 2, 3, vec![1, 2, 3], None),
        ("all jobs that fell", &fallen_jobs, 2, 3, vec![1, 2, 3], None),
        ("no job, to keep the head before the others", &fallen_jobs, 2, 2, vec![], None),
        ("a job that changes places", &jobs_with_one_overtaken, 2, 2, vec![2], None),
        ("too many jobs change places: the last of them", &reversed_jobs, 2, 1, vec![2], Some(0)),
        ("held jobs come first", &jobs_with_holds, 2, 1, vec![3], Some(0)),
    ] {
        let plan = make_set_of_pending_jobs(jobs).plan(Bounds { depth, budget, refreshes_stale: true });
        let posted_ids: Vec<u64> = plan.jobs_to_post.iter().map(|(id, _)| id.0).collect();
        assert_eq!((posted_ids, plan.correct_depth), (touch, correct_depth), "{what}");
    }
}

#[test]
fn a_posted_priority_is_comparable_again_once_reposted_or_up_to_date() {
    let mut pending = make_set_of_pending_jobs(&[make_job(1, 5, 5), make_job(2, 4, 4)]);
    let read_flags =
        |pending: &Pending<()>| [1, 2].map(|id| pending.get(JobId(id)).unwrap().0.is_incomparable);
    pending.mark_priorities_incomparable();
    pending.set_current_priority(JobId(1), 7);
    pending.set_current_priority(JobId(2), 4);
    assert_eq!(read_flags(&pending), [true, false]);
    let (before, ()) = pending.set_posted_priority(JobId(1), 7, ()).unwrap();
    assert_eq!(read_flags(&pending), [false, false]);
    pending.restore_posted_priority(before, ());
    assert_eq!((read_flags(&pending), pending.stale_count()), ([true, false], 1));
}

#[test]
fn a_posting_plan_reports_the_correct_depth_if_holds_use_all_posts() {
    let jobs =
        [make_job(1, 9, 9), make_job(2, 0, 8), make_job(3, 7, 7), make_job(4, 2, 6), make_job(5, 5, 1)];
    let plan = make_set_of_pending_jobs(&jobs).plan(Bounds {
        depth: UNLIMITED_DEPTH,
        budget: 1,
        refreshes_stale: false,
    });
    assert_eq!((plan.jobs_to_post, plan.stale, plan.correct_depth), (vec![(JobId(2), 8)], 2, Some(3)));
}

/// Returns `count` jobs with ids from `first` on. Their order by current priority is the reverse of their order by
/// posted priority. A plan must post N jobs to correct the first N jobs of the queue.
fn reversed_jobs(first: u64, count: u64, base: u32) -> Vec<PendingJob> {
    (0..count).map(|at| make_job(first + at, base + at as u32, base + 200 - at as u32)).collect()
}

#[test]
fn queues_with_equal_needs_share_the_budget_equally() {
    let mut pending = Pending::default();
    for (name, first) in [("debug", 0), ("batch", 100)] {
        for job in reversed_jobs(first, 20, 100) {
            pending.put(Some(&QueueName::from(name)), job, ());
        }
    }
    let plan = pending.plan(Bounds { depth: 50, budget: 30, refreshes_stale: false });
    let posts_in_debug = plan.jobs_to_post.iter().filter(|(id, _)| id.0 < 100).count();
    assert_eq!((posts_in_debug, plan.jobs_to_post.len(), plan.correct_depth), (15, 30, Some(15)));
}

#[test]
fn few_stale_priorities_in_one_queue_do_not_limit_other_queues_depth() {
    let small = reversed_jobs(0, 6, 100);
    let need = fewest_posts(&small, 500).len();
    // A hundred jobs whose posted priorities are up to date precede the other jobs of the large queue.
    let current_jobs = (100..200).map(|id| make_job(id, 9_000, 9_000));
    let large: Vec<PendingJob> = current_jobs.chain(reversed_jobs(200, 40, 100)).collect();
    let mut pending = Pending::default();
    for (name, jobs) in [("small", small), ("large", large)] {
        for job in jobs {
            pending.put(Some(&QueueName::from(name)), job, ());
        }
    }
    assert!(!pending.is_empty() && Pending::<()>::default().is_empty());
    let plan = pending.plan(Bounds { depth: 500, budget: 2 * need, refreshes_stale: false });
    assert_eq!((plan.jobs_to_post.len(), plan.correct_depth), (2 * need, Some(100 + need)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_posting_plan_posts_the_smallest_possible_number_of_jobs(jobs in any_jobs(9), depth in prop_oneof![Just(UNLIMITED_DEPTH), 0..9usize]) {
        let touch = fewest_posts(&jobs, depth);
        let is_posted = |job: &PendingJob| touch.iter().any(|other| other.id == job.id);
        prop_assert!(is_correct(&jobs, is_posted, depth), "{touch:?}");
        prop_assert_eq!(touch.len(), find_smallest_number_of_posts(&jobs, depth));
        prop_assert!(touch.is_sorted_by_key(PendingJob::current_key) && touch.iter().all(PendingJob::is_stale));
    }

    #[test]
    fn a_posting_plan_sorts_the_queue_to_the_depth_it_reports(jobs in any_jobs(60), depth in 1..70usize, refreshes_stale in any::<bool>(), budget in 0..40usize) {
        let pending = make_set_of_pending_jobs(&jobs);
        let plan = pending.plan(Bounds { depth, budget, refreshes_stale });
        prop_assert!(plan.jobs_to_post.len() <= budget);
        let is_posted = |job: &PendingJob| plan.jobs_to_post.contains(&(job.id, job.current));
        let correct_depth = plan.correct_depth.unwrap_or(depth);
        prop_assert!(correct_depth == 0 || is_correct(&jobs, is_posted, correct_depth), "{plan:?}");
        // With this budget, no plan can put more jobs in the correct order.
        if plan.correct_depth.is_some() && correct_depth < jobs.len() {
            let set_comparable = |job: &PendingJob| PendingJob { is_incomparable: job.is_incomparable && refreshes_stale, ..*job };
            let jobs: Vec<PendingJob> = jobs.iter().map(set_comparable).collect();
            prop_assert!(fewest_posts(&jobs, correct_depth + 1).len() > budget);
        }
        let stale_count = jobs.iter().filter(|job| job.is_stale() && !is_posted(job)).count();
        prop_assert_eq!(stale_count, plan.stale);
        let is_ordered = jobs.is_empty() || sort_ids(&jobs, |job| job.posted) == sort_ids(&jobs, |job| job.current);
        // If the order is correct, a plan posts nothing. The exception is a stale job whose posted or current
        // priority is 0 or the maximum.
        if !refreshes_stale && is_ordered && !jobs.iter().any(PendingJob::must_be_posted) {
            prop_assert_eq!(plan.jobs_to_post, []);
        }
        if refreshes_stale && jobs.iter().filter(|job| job.is_stale()).count() <= budget {
            prop_assert_eq!(plan.stale, 0);
        }
    }

    #[test]
    fn the_pending_jobs_match_a_simple_list_after_random_changes(changes in prop::collection::vec((0..6u8, 0..12u64, any_priority(), 0..3usize), 0..80)) {
        let queues = [None, Some(QueueName::from("a")), Some(QueueName::from("b"))];
        let mut pending = Pending::default();
        let mut list: Vec<(usize, PendingJob)> = Vec::new();
        for (change, id, priority, queue) in changes {
            let known = list.iter_mut().find(|(_, job)| job.id.0 == id);
            match (change, known) {
                (0, _) => {
                    list.retain(|(_, job)| job.id.0 != id);
                    list.push((queue, make_job(id, priority, priority)));
                    pending.put(queues[queue].as_ref(), make_job(id, priority, priority), ());
                }
                (1, _) => {
                    list.retain(|(_, job)| job.id.0 != id);
                    pending.remove(JobId(id));
                }
                (2, known) => {
                    known.into_iter().for_each(|(_, job)| (job.posted, job.is_incomparable) = (priority, false));
                    pending.set_posted_priority(JobId(id), priority, ());
                }
                (3, _) => {
                    list.iter_mut().for_each(|(_, job)| job.is_incomparable = true);
                    pending.mark_priorities_incomparable();
                }
                (_, known) => {
                    known.into_iter().for_each(|(_, job)| {
                        job.current = priority;
                        job.is_incomparable &= job.is_stale();
                    });
                    pending.set_current_priority(JobId(id), priority);
                }
            }
        }
        prop_assert_eq!(pending.len(), list.len());
        prop_assert_eq!(pending.stale_count(), list.iter().filter(|(_, job)| job.posted != job.current).count());
        let plan = pending.plan(Bounds { depth: 3, budget: UNLIMITED_DEPTH, refreshes_stale: false });
        let full_plan = pending.plan(Bounds { depth: 3, budget: UNLIMITED_DEPTH, refreshes_stale: true });
        prop_assert_eq!(full_plan.jobs_to_post.len(), pending.stale_count());
        let mut expected = 0;
        for queue in 0..3 {
            let in_queue = list.iter().filter(|(other, _)| *other == queue);
            let jobs: Vec<PendingJob> = in_queue.map(|(_, job)| PendingJob { is_incomparable: false, ..*job }).collect();
            let is_posted = |job: &PendingJob| plan.jobs_to_post.contains(&(job.id, job.current));
            prop_assert!(is_correct(&jobs, is_posted, 3));
            expected += fewest_posts(&jobs, 3).len();
        }
        prop_assert_eq!(plan.jobs_to_post.len(), expected);
    }

    #[test]
    fn computed_queue_positions_equal_positions_in_a_sorted_list(jobs in prop::collection::vec((any_priority(), 0..3usize), 0..30), wanted in prop::collection::vec(0..40u64, 0..12), new in 1..6u32) {
        let queues = [None, Some(QueueName::from("a")), Some(QueueName::from("b"))];
        let mut pending = Pending::default();
        let numbered = || (0..).zip(&jobs).map(|(id, (posted, queue))| (make_job(id, *posted, 1), *queue));
        for (job, queue) in numbered() {
            pending.put(queues[queue].as_ref(), job, ());
        }
        let mut expected = std::collections::HashMap::new();
        for queue in 0..3 {
            let in_queue: Vec<PendingJob> =
                numbered().filter(|(job, other)| *other == queue && job.posted > 0).map(|(job, _)| job).collect();
            let order = sort_ids(&in_queue, |job| job.posted);
            expected.extend((1..).zip(&order).map(|(place, id)| (*id, (place, order.len()))));
        }
        expected.retain(|id, _| wanted.contains(&id.0));
        prop_assert_eq!(pending.places(wanted.into_iter().map(JobId)), expected);
        for queue in &queues {
            let predicted = pending.predict_position_of_new_job(queue.as_ref(), new);
            pending.put(queue.as_ref(), make_job(99, new, 1), ());
            let places = pending.places([JobId(99)]);
            prop_assert_eq!(places.get(&JobId(99)), Some(&predicted));
        }
    }
}
