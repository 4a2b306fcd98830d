// SPDX-License-Identifier: LGPL-3.0-only
//! Lists the running jobs of the site, for commands that count usage from the database.

use super::ask::{InstanceArg, describe_job_instance, site_resources};
use fairshare_accounting::pipeline::fetch::RunningJob;

/// The running jobs. The error is the reason why they are unknown, worded as a clause.
pub(crate) type Running = Result<Vec<RunningJob>, String>;

/// Lists the running jobs. If `is_offline` is true, an option names the source of usage, and Flux is asked only with --uri.
pub(crate) fn list(instance: &InstanceArg, is_offline: bool) -> Running {
    if is_offline && instance.uri.is_none() {
        return Err("an option names the input, and --uri is not given".to_owned());
    }
    let mut flux = instance.connect().map_err(|failure| failure.to_string())?;
    if let Some(text) = describe_job_instance(&flux) {
        return Err(text);
    }
    let mut jobs = RunningJob::list(&flux).map_err(|error| error.to_string())?;
    if site_resources(&flux).is_some_and(|all| all.gpus > 0) {
        RunningJob::read_gpus(&mut flux, &mut jobs).map_err(|error| error.to_string())?;
    }
    Ok(jobs)
}
