// SPDX-License-Identifier: LGPL-3.0-only
// A priority plugin that does nothing, which gives the minimum of every timing. It answers the methods of
// mf_priority, ignores their payloads, and gives each job the priority 50000.
#include <flux/core.h>
#include <flux/jobtap.h>
#include <stdint.h>

static int priority (flux_plugin_t *p, const char *topic, flux_plugin_arg_t *args, void *arg)
{
    return flux_plugin_arg_pack (args, FLUX_PLUGIN_ARG_OUT, "{s:I}", "priority", (int64_t)50000);
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

static const struct flux_plugin_handler handlers[] = {
    { "job.state.priority", priority, NULL },
    { "job.priority.get", priority, NULL },
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
