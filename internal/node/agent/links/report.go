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
)

// outcome is what has become of one end.
type outcome struct {
	// err is why it is not plugged.
	err error
	mtu int
	// finding is what is known of whether the link is up: of a client by its probe, of an endpoint by the link's status.
	finding linkprobe.Finding
	// refusedRoutes is the message of side.refusedRoutes.
	refusedRoutes string
	secrecy
}

// Reasons of conditions.
const (
	reasonPlugged    = "Plugged"
	reasonNotPlugged = "NotPlugged"
	reasonAnswers    = "Answers"
	reasonSilent     = "DoesNotAnswer"
	reasonMTU        = "MTUTooLarge"
)

// report is the part of a link's status that is this end's to write.
type report = v1alpha1.TSNLinkStatus

// heardAfter is when the API server has told of what was written.
const heardAfter = 5 * time.Second

// report writes the end's part of the status, if it is another than before.
func (r *Reconciler) report(ctx context.Context, s *side, done *outcome) error {
	now := r.reportOf(s, done)
	before := r.ends.saidLately(s.key(), r.Now())
	if before == nil {
		before = s.saidBefore()
	}
	if equality.Semantic.DeepEqual(before, now) {
		return nil
	}
	if err := r.apply(ctx, s, now); err != nil {
		return err
	}
	r.ends.say(s.key(), now, r.Now())
	return nil
}

// saidLately is what was written so lately that the API server may not have told of it.
func (e *ends) saidLately(key string, now time.Time) *report {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one := e.known[key]; one != nil && one.said != nil && now.Sub(one.saidAt) < heardAfter {
		return one.said
	}
	return nil
}

func (e *ends) say(key string, said *report, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	one := e.get(key)
	one.said, one.saidAt = said, now
}

// saidBefore is this end's part of the status as the API server has it.
func (s *side) saidBefore() *report {
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

// reportOf says what there is to say of an end. The time of a condition that stays what it was is that which it had.
func (r *Reconciler) reportOf(s *side, done *outcome) *report {
	made := &report{}
	plugged := metav1.Condition{Type: s.condition(), Status: metav1.ConditionTrue, Reason: reasonPlugged, Message: joined(done.note, done.refusedRoutes)}
	if done.err != nil {
		plugged.Status, plugged.Reason, plugged.Message = metav1.ConditionFalse, reasonNotPlugged, oneLine(done.err)
	}
	made.Conditions = append(made.Conditions, plugged)
	if s.isClient {
		made.Conditions = append(made.Conditions, s.up(done))
		made.MeasuredMTU, made.Since = s.link.Status.MeasuredMTU, s.link.Status.Since
		if done.finding.MTU > 0 {
			made.MeasuredMTU = int32(done.finding.MTU)
		}
		if done.finding.Up && made.Since == nil {
			now := metav1.NewMicroTime(r.Now())
			made.Since = &now
		}
	}
	for i := range made.Conditions {
		condition := &made.Conditions[i]
		condition.ObservedGeneration = s.link.Generation
		condition.LastTransitionTime = metav1.NewTime(r.Now().Truncate(time.Second))
		if last := s.last(condition.Type, r.ends.saidLately(s.key(), r.Now())); last != nil && last.Status == condition.Status {
			condition.LastTransitionTime = last.LastTransitionTime
		}
	}
	if said := r.ends.saidLately(s.key(), r.Now()); said != nil && said.Since != nil && s.isClient {
		made.Since = said.Since
	}
	return made
}

// joined joins messages, of which each may be "".
func joined(messages ...string) string {
	return strings.Join(slices.DeleteFunc(messages, func(one string) bool { return one == "" }), "; ")
}

// last is a condition as it was written last.
func (s *side) last(name string, said *report) *metav1.Condition {
	if said != nil {
		return meta.FindStatusCondition(said.Conditions, name)
	}
	return meta.FindStatusCondition(s.link.Status.Conditions, name)
}

// up is the condition Up.
func (s *side) up(done *outcome) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionUp, Status: metav1.ConditionFalse, Reason: reasonSilent, Message: done.finding.Sentence}
	switch {
	case done.err != nil:
		condition.Reason, condition.Message = reasonNotPlugged, "the client's end is not plugged: "+oneLine(done.err)
	case done.finding.Up:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, reasonAnswers, ""
	case done.finding.MTU > 0 && done.finding.MTU < done.mtu:
		condition.Reason = reasonMTU
	}
	if condition.Status == metav1.ConditionFalse && done.err == nil {
		condition.Message = s.whyNotUp(done)
	}
	return condition
}

// whyNotUp says why a link that is plugged here is not up: that nothing may be sent without keys before that the other end is not plugged, and this
// before that nothing is heard.
func (s *side) whyNotUp(done *outcome) string {
	return cmp.Or(done.silent, s.othersSentence(), done.finding.Sentence)
}

// othersSentence says what is missing at the other end, "" if it is plugged.
func (s *side) othersSentence() string {
	name := v1alpha1.ConditionEndpointPlugged
	if !s.isClient {
		name = v1alpha1.ConditionClientPlugged
	}
	condition := meta.FindStatusCondition(s.link.Status.Conditions, name)
	where := fmt.Sprintf("the other end, pod %s/%s on node %s%s,", s.other.Namespace, s.other.Pod, s.other.Node, ofCluster(s.other.Cluster))
	switch {
	case condition == nil:
		return where + " is not plugged yet; see that ktsn-agent runs there"
	case condition.Status != metav1.ConditionTrue:
		return where + " is not plugged: " + condition.Message
	}
	return ""
}

// said is what the client's node has said of the link.
func said(link *v1alpha1.TSNLink) linkprobe.Finding {
	condition := meta.FindStatusCondition(link.Status.Conditions, v1alpha1.ConditionUp)
	if condition == nil {
		return linkprobe.Finding{Sentence: "the client's node has not said yet whether the link is up"}
	}
	return linkprobe.Finding{Up: condition.Status == metav1.ConditionTrue, MTU: int(link.Status.MeasuredMTU), Sentence: condition.Message}
}

// apply writes the end's part of the status, which is its alone.
func (r *Reconciler) apply(ctx context.Context, s *side, said *report) error {
	status := map[string]any{}
	var conditions []any
	for i := range said.Conditions {
		one, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&said.Conditions[i])
		if err != nil {
			return err
		}
		conditions = append(conditions, one)
	}
	status["conditions"] = conditions
	if s.isClient {
		if said.MeasuredMTU > 0 {
			status["measuredMTU"] = int64(said.MeasuredMTU)
		}
		if said.Since != nil {
			status["since"] = said.Since.UTC().Format(metav1.RFC3339Micro)
		}
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TSNLink"))
	object.SetNamespace(s.link.Namespace)
	object.SetName(s.link.Name)
	object.SetUID(s.link.UID) // of another link of the name nothing is said
	err := r.Status.Patch(ctx, object, client.Apply, client.FieldOwner("ktsn-agent-"+s.name()+"-"+r.Node), client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("say in TSNLink %s/%s what has become of it: %w", s.link.Namespace, s.link.Name, err)
	}
	return nil
}

// tell tells the pod of its link: by files, and by names of the other end.
func (r *Reconciler) tell(s *side, done *outcome) error {
	uid, interfaceName := s.own.UID, s.own.Interface
	if done.err != nil {
		if s.link.Status.Since != nil {
			return nil // it was up once
		}
		return r.Files.Wait(uid, interfaceName, fmt.Sprintf("link to service %s: not plugged: %s", s.link.Spec.Service, oneLine(done.err)))
	}
	var peers []netip.Addr
	for _, text := range s.other.Addresses {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			peers = append(peers, prefix.Addr())
		}
	}
	errNames := r.Hosts.Set(uid, interfaceName, peers, s.own.Names, further(s.own)...)
	if done.finding.Up || s.link.Status.Since != nil {
		mtu := done.mtu
		if done.finding.MTU > 0 {
			mtu = min(mtu, done.finding.MTU)
		}
		return errors.Join(errNames, r.Files.Up(uid, s.about(mtu)))
	}
	return errors.Join(errNames, r.Files.Wait(uid, interfaceName, fmt.Sprintf("link to service %s: plugged here; %s", s.link.Spec.Service, s.whyNotUp(done))))
}

// further are the hosts that an end reaches behind the other one.
func further(ownLinkEnd *v1alpha1.LinkEnd) []Host {
	var all []Host
	for _, linkHost := range ownLinkEnd.Hosts {
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
