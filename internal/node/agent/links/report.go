// SPDX-License-Identifier: Apache-2.0

package links

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/linkprobe"
	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
)

// outcome is the result of reconciling one end.
type outcome struct {
	// err is why the end is not plugged.
	err error
	mtu int
	// finding says whether the link is up. A client takes it from its probe, an endpoint from the link's status.
	finding linkprobe.Finding
	// refusedRoutes is the message of side.refusedRoutes.
	refusedRoutes string
	encryptionNotes
}

// Reasons of conditions of TSNLinks.
const (
	// reasonPlugged : the pod has the interface of the link.
	reasonPlugged = "Plugged"
	// reasonNotPlugged : the pod does not have the interface; the message has the reason.
	reasonNotPlugged = "NotPlugged"
	// reasonAnswers : the other end answers to packets of the link's MTU.
	reasonAnswers = "Answers"
	// reasonSilent : the other end does not answer.
	reasonSilent = "DoesNotAnswer"
	// reasonMTU : the other end answers, but not to packets of the link's MTU.
	reasonMTU = "MTUTooLarge"
)

// report is the part of a link's status that this end writes.
type report = v1alpha1.TSNLinkStatus

// reportFreshFor is longer than a watch needs to return a written status.
const reportFreshFor = 5 * time.Second

// report writes the end's part of the status if it has changed.
func (r *Reconciler) report(ctx context.Context, s *side, result *outcome) error {
	now := r.buildReport(s, result)
	before := r.ends.recentReport(s.key(), r.Now())
	if before == nil {
		before = s.previousReport()
	}
	if equality.Semantic.DeepEqual(before, now) {
		return nil
	}
	if err := r.patchStatus(ctx, s, now); err != nil {
		return err
	}
	r.ends.setReport(s.key(), now, r.Now())
	return nil
}

// recentReport returns a report that is so recent that the watch may not have returned it.
func (e *ends) recentReport(key string, now time.Time) *report {
	e.mu.Lock()
	defer e.mu.Unlock()
	if entry := e.byKey[key]; entry != nil && entry.written != nil && now.Sub(entry.writtenAt) < reportFreshFor {
		return entry.written
	}
	return nil
}

func (e *ends) setReport(key string, written *report, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	entry := e.get(key)
	entry.written, entry.writtenAt = written, now
}

// previousReport returns this end's part of the known status.
func (s *side) previousReport() *report {
	status := &s.link.Status
	before := &report{}
	types := []string{s.condition()}
	if s.isClient {
		types = append(types, v1alpha1.ConditionUp)
		before.MeasuredMTU, before.Since = status.MeasuredMTU, status.Since
	}
	for _, name := range types {
		if condition := meta.FindStatusCondition(status.Conditions, name); condition != nil {
			before.Conditions = append(before.Conditions, *condition)
		}
	}
	return before
}

// buildReport returns the report of an end. The transition time of a condition changes with its status only.
func (r *Reconciler) buildReport(s *side, result *outcome) *report {
	built := &report{}
	plugged := metav1.Condition{Type: s.condition(), Status: metav1.ConditionTrue, Reason: reasonPlugged, Message: joinNonEmpty(result.note, result.refusedRoutes)}
	if result.err != nil {
		plugged.Status, plugged.Reason, plugged.Message = metav1.ConditionFalse, reasonNotPlugged, errortext.OneLine(result.err)
	}
	built.Conditions = append(built.Conditions, plugged)
	if s.isClient {
		built.Conditions = append(built.Conditions, s.upCondition(result))
		built.MeasuredMTU, built.Since = s.link.Status.MeasuredMTU, s.link.Status.Since
		if result.finding.MTU > 0 {
			built.MeasuredMTU = int32(result.finding.MTU)
		}
		if result.finding.Up && built.Since == nil {
			now := metav1.NewMicroTime(r.Now())
			built.Since = &now
		}
	}
	for i := range built.Conditions {
		condition := &built.Conditions[i]
		condition.ObservedGeneration = s.link.Generation
		condition.LastTransitionTime = metav1.NewTime(r.Now().Truncate(time.Second))
		if last := s.lastCondition(condition.Type, r.ends.recentReport(s.key(), r.Now())); last != nil && last.Status == condition.Status {
			condition.LastTransitionTime = last.LastTransitionTime
		}
	}
	if recent := r.ends.recentReport(s.key(), r.Now()); recent != nil && recent.Since != nil && s.isClient {
		built.Since = recent.Since
	}
	return built
}

// joinNonEmpty joins messages, of which each may be "".
func joinNonEmpty(messages ...string) string {
	return strings.Join(slices.DeleteFunc(messages, func(message string) bool { return message == "" }), "; ")
}

// lastCondition returns a condition as it was last written.
func (s *side) lastCondition(name string, recent *report) *metav1.Condition {
	if recent != nil {
		return meta.FindStatusCondition(recent.Conditions, name)
	}
	return meta.FindStatusCondition(s.link.Status.Conditions, name)
}

// upCondition returns the condition Up.
func (s *side) upCondition(result *outcome) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionUp, Status: metav1.ConditionFalse, Reason: reasonSilent, Message: result.finding.Message}
	switch {
	case result.err != nil:
		condition.Reason, condition.Message = reasonNotPlugged, "the client's end is not plugged: "+errortext.OneLine(result.err)
	case result.finding.Up:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, reasonAnswers, ""
	case result.finding.MTU > 0 && result.finding.MTU < result.mtu:
		condition.Reason = reasonMTU
	}
	if condition.Status == metav1.ConditionFalse && result.err == nil {
		condition.Message = s.whyNotUp(result)
	}
	return condition
}

// whyNotUp says why a plugged link is not up. Missing keys take precedence over an unplugged other end, and this over
// missing answers.
func (s *side) whyNotUp(result *outcome) string {
	return cmp.Or(result.silent, s.otherEndProblem(), result.finding.Message)
}

// otherEndProblem says what is missing at the other end, "" if it is plugged.
func (s *side) otherEndProblem() string {
	name := v1alpha1.ConditionEndpointPlugged
	if !s.isClient {
		name = v1alpha1.ConditionClientPlugged
	}
	condition := meta.FindStatusCondition(s.link.Status.Conditions, name)
	where := fmt.Sprintf("the other end, pod %s/%s on node %s%s,", s.otherEnd.Namespace, s.otherEnd.Pod, s.otherEnd.Node, ofCluster(s.otherEnd.Cluster))
	switch {
	case condition == nil:
		return where + " is not plugged yet; check that ktsn-agent runs there"
	case condition.Status != metav1.ConditionTrue:
		return where + " is not plugged: " + condition.Message
	}
	return ""
}

// clientFinding returns the finding of the client's node.
func clientFinding(link *v1alpha1.TSNLink) linkprobe.Finding {
	condition := meta.FindStatusCondition(link.Status.Conditions, v1alpha1.ConditionUp)
	if condition == nil {
		return linkprobe.Finding{Message: "the client's node has not reported yet whether the link is up"}
	}
	return linkprobe.Finding{Up: condition.Status == metav1.ConditionTrue, MTU: int(link.Status.MeasuredMTU), Message: condition.Message}
}

// patchStatus writes the end's part of the status by server-side apply.
func (r *Reconciler) patchStatus(ctx context.Context, s *side, written *report) error {
	status := map[string]any{}
	var conditions []any
	for i := range written.Conditions {
		condition, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&written.Conditions[i])
		if err != nil {
			return err
		}
		conditions = append(conditions, condition)
	}
	status["conditions"] = conditions
	if s.isClient {
		if written.MeasuredMTU > 0 {
			status["measuredMTU"] = int64(written.MeasuredMTU)
		}
		if written.Since != nil {
			status["since"] = written.Since.UTC().Format(metav1.RFC3339Micro)
		}
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TSNLink"))
	object.SetNamespace(s.link.Namespace)
	object.SetName(s.link.Name)
	object.SetUID(s.link.UID) // not the status of another link with this name
	err := r.Status.Patch(ctx, object, client.Apply, client.FieldOwner("ktsn-agent-"+s.name()+"-"+r.Node), client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of TSNLink %s/%s: %w", s.link.Namespace, s.link.Name, err)
	}
	return nil
}

// updatePod describes the link to the pod: by files, and by names of the other end.
func (r *Reconciler) updatePod(s *side, result *outcome) error {
	uid, interfaceName := s.end.UID, s.end.Interface
	if result.err != nil {
		if s.link.Status.Since != nil {
			return nil // keep the file of a link that has been up
		}
		return r.Files.WriteWaiting(uid, interfaceName, fmt.Sprintf("link to service %s: not plugged: %s", s.link.Spec.Service, errortext.OneLine(result.err)))
	}
	var peers []netip.Addr
	for _, text := range s.otherEnd.Addresses {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			peers = append(peers, prefix.Addr())
		}
	}
	errNames := r.Hosts.Set(uid, interfaceName, peers, s.end.Names, furtherHosts(s.end)...)
	if result.finding.Up || s.link.Status.Since != nil {
		mtu := result.mtu
		if result.finding.MTU > 0 {
			mtu = min(mtu, result.finding.MTU)
		}
		return errors.Join(errNames, r.Files.WriteLink(uid, s.linkFile(mtu)))
	}
	return errors.Join(errNames, r.Files.WriteWaiting(uid, interfaceName, fmt.Sprintf("link to service %s: plugged here; %s", s.link.Spec.Service, s.whyNotUp(result))))
}

// furtherHosts returns the hosts that an end reaches through the other end.
func furtherHosts(end *v1alpha1.LinkEnd) []Host {
	var all []Host
	for _, linkHost := range end.Hosts {
		host := Host{Names: []string{linkHost.Name}}
		for _, text := range linkHost.Addresses {
			if address, err := netip.ParseAddr(text); err == nil {
				host.Addresses = append(host.Addresses, address)
			}
		}
		all = append(all, host)
	}
	return all
}
