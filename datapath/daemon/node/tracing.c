/* SPDX-License-Identifier: Apache-2.0 */
#include "tracing.h"

#include <string.h>

void flow_trace(const struct flow *flow)
{
	const struct pod *pod = flow->process->pod;
	const struct node_trace *trace = &pod->node->trace;
	bool traced = trace->number && (!trace->identity[0] || strcmp(trace->identity, pod->identity) == 0) &&
		      (!trace->flow || trace->flow == flow->loop->number);

	atomic_store_explicit(&flow->loop->trace, traced ? trace->number : 0, memory_order_relaxed);
	if (traced)
		ktsn_ring_trace_set(&flow->process->ring->consumer, true);
}

void process_trace(const struct process *process)
{
	if (!process->ring)
		return;
	ktsn_ring_trace_set(&process->ring->consumer,
			    ktsn_strategy_checks_handover(process->pod->node->shaping.strategy));
	for (uint32_t i = 0; i < LOOP_FLOWS_PER_RING; i++)
		if (process->flows[i])
			flow_trace(process->flows[i]);
}

void processes_trace(const struct node *node)
{
	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		for (const struct process *process = pod->processes; process; process = process->next)
			process_trace(process);
}

static bool process_has(const struct process *process, uint64_t number)
{
	for (uint32_t i = 0; i < LOOP_FLOWS_PER_RING; i++)
		if (process->flows[i] && !process->flows[i]->closed &&
		    process->flows[i]->loop->number == number)
			return true;
	return false;
}

/* Returns the pod of the flow, or NULL. */
static const struct pod *pod_of_flow(const struct node *node, uint64_t number)
{
	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		for (const struct process *process = pod->processes; process; process = process->next)
			if (process_has(process, number))
				return pod;
	return NULL;
}

static int trace_check(const struct node *node, const char *identity, uint64_t flow, struct refusal *refusal)
{
	const struct pod *owner = flow ? pod_of_flow(node, flow) : NULL;

	if (identity[0] && !pod_find(node, identity))
		return refuse(refusal, "identity", "%s: no pod of that identity is here; \"pods\" lists them",
			      identity);
	if (flow && !owner)
		return refuse(refusal, "flow", "%llu: there is no such flow; \"flows\" lists them",
			      (unsigned long long)flow);
	if (flow && identity[0] && strcmp(owner->identity, identity) != 0)
		return refuse(refusal, "flow", "%llu: is of pod %s, not of %s; leave one of the two out",
			      (unsigned long long)flow, owner->identity, identity);
	return 0;
}

int node_trace_start(struct node *node, const char *identity, uint64_t flow, struct refusal *refusal)
{
	struct node_trace *trace = &node->trace;
	int err = trace_check(node, identity, flow, refusal);

	if (err)
		return err;
	trace->number = ++node->trace_numbers ? node->trace_numbers : ++node->trace_numbers;
	trace->flow = flow;
	memcpy(trace->identity, identity, strlen(identity) + 1);
	trace_number_set(loop_trace(node->loop), 0);
	trace->before = trace_last(loop_trace(node->loop));
	trace_number_set(loop_trace(node->loop), trace->number);
	processes_trace(node);
	return 0;
}

void node_trace_stop(struct node *node)
{
	node->trace.number = 0;
	trace_number_set(loop_trace(node->loop), 0);
	processes_trace(node);
}
