/* SPDX-License-Identifier: LGPL-3.0-only */
/* A priority plugin that keeps nothing: what the host itself costs. Posts the memo that the others post. */
#include <stddef.h>
#include <stdint.h>

struct handler {
    const char *topic;
    int (*cb) (void *p, const char *topic, void *args, void *data);
    void *data;
};

extern int flux_plugin_register (void *p, const char *name, const struct handler *table);
extern int flux_plugin_arg_pack (void *args, int flags, const char *fmt, ...);
extern int flux_jobtap_event_post_pack (void *p, uint64_t id, const char *name, const char *fmt, ...);
extern int flux_jobtap_service_register (void *p, const char *method, void *cb, void *arg);
extern int flux_jobtap_reprioritize_all (void *p);
extern int flux_respond (void *h, const void *msg, const char *text);

static int priority (void *p, const char *topic, void *args, void *data)
{
    if (topic[4] == 's')
        flux_jobtap_event_post_pack (p, UINT64_MAX, "memo", "{s:f}", "fairshare", 0.5);
    return flux_plugin_arg_pack (args, 1, "{s:I}", "priority", (long long) 50000);
}

static void accept_all (void *h, void *mh, const void *msg, void *arg)
{
    flux_respond (h, msg, NULL);
}

static void reprioritize (void *h, void *mh, const void *msg, void *arg)
{
    flux_jobtap_reprioritize_all (arg);
    flux_respond (h, msg, NULL);
}

int flux_plugin_init (void *p)
{
    static const struct handler table[] = {
        { "job.priority.get", priority, NULL },
        { "job.state.priority", priority, NULL },
        { NULL, NULL, NULL },
    };
    return flux_plugin_register (p, "mf_priority", table) < 0
           || flux_jobtap_service_register (p, "rec_update", accept_all, p) < 0
           || flux_jobtap_service_register (p, "reprioritize", reprioritize, p) < 0 ? -1 : 0;
}
