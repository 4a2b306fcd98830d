// SPDX-License-Identifier: LGPL-3.0-only
// The minimum cost of a submission: a priority plugin that registers mf_priority's callbacks and posts the
// same events for each job, with constant values. It decides, stores and reads nothing, so the cost of
// mf_priority above this minimum is mf_priority's own work. With EVENTS_ALONE, this plugin registers only the
// callbacks in which it posts events.
#include <flux/core.h>
#include <flux/jobtap.h>
#include <stdint.h>
#include <string.h>

#ifndef EVENTS_ALONE
static int pass (flux_plugin_t *p, const char *topic, flux_plugin_arg_t *args, void *arg)
{
    return 0;
}
#endif

// The jobs of floor.py name their bank, so only the project is missing.
static int new_job (flux_plugin_t *p, const char *topic, flux_plugin_arg_t *args, void *arg)
{
    return flux_jobtap_jobspec_update_pack (p, "{s:s}", "attributes.system.project", "*");
}

static int priority_get (flux_plugin_t *p, const char *topic, flux_plugin_arg_t *args, void *arg)
{
    return flux_plugin_arg_pack (args, FLUX_PLUGIN_ARG_OUT, "{s:I}", "priority", (int64_t)50000);
}

static int state_priority (flux_plugin_t *p, const char *topic, flux_plugin_arg_t *args, void *arg)
{
    if (flux_jobtap_event_post_pack (p, FLUX_JOBTAP_CURRENT_JOB, "memo", "{s:f}", "fairshare", 0.5) < 0)
        return -1;
    return priority_get (p, topic, args, arg);
}

static void ignore (flux_t *h, flux_msg_handler_t *mh, const flux_msg_t *msg, void *arg)
{
    flux_respond (h, msg, NULL);
}

static void reprioritize (flux_t *h, flux_msg_handler_t *mh, const flux_msg_t *msg, void *arg)
{
    flux_jobtap_reprioritize_all (arg);
    flux_respond (h, msg, NULL);
}

static int state (flux_plugin_t *p, const char *topic, flux_plugin_arg_t *args, void *arg)
{
    return strcmp (topic, "job.state.priority") == 0 ? state_priority (p, topic, args, arg) : 0;
}

// The handlers of src/plugin/mod.rs.
static const struct flux_plugin_handler handlers[] = {
    { "job.priority.get", priority_get, NULL },
#ifdef EVENTS_ALONE
    { "job.state.priority", state, NULL },
    { "job.new", new_job, NULL },
#else
    { "job.state.*", state, NULL },
    { "job.create", pass, NULL },
    { "job.validate", pass, NULL },
    { "job.new", new_job, NULL },
    { "job.update", pass, NULL },
    { "job.destroy", pass, NULL },
    { "job.event.dependency-add", pass, NULL },
    { "job.event.dependency-remove", pass, NULL },
    { "job.event.urgency", pass, NULL },
    { "job.event.resource-update", pass, NULL },
    { "job.update.attributes.system.queue", pass, NULL },
    { "job.update.attributes.system.bank", pass, NULL },
    { "plugin.query", pass, NULL },
    { "conf.update", pass, NULL },
#endif
    { 0 },
};

int flux_plugin_init (flux_plugin_t *p)
{
    if (flux_plugin_register (p, "mf_priority", handlers) < 0
        || flux_jobtap_service_register (p, "rec_update", ignore, p) < 0
        || flux_jobtap_service_register (p, "rec_q_update", ignore, p) < 0
        || flux_jobtap_service_register (p, "reprioritize", reprioritize, p) < 0)
        return -1;
    return 0;
}
