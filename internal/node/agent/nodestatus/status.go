// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/metrics"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// maxMessageBytes is below the API server's limit of 1,024 bytes.
const maxMessageBytes = 1000

// status returns the status to report. The last status of networks that are not known stays.
func (r *Reconciler) status(state *network.Cluster, before *v1alpha1.TSNNodeStatus, node *corev1.Node, now *ktsndState) *v1alpha1.TSNNodeStatus {
	after := &v1alpha1.TSNNodeStatus{AgentVersion: r.Version, SetsAttached: true, KtsndVersion: before.KtsndVersion, Clock: r.clock(before)}
	if now.status != nil {
		after.KtsndVersion = now.status.KtsndVersion
	}
	r.setHost(after, before)
	announced := r.Encryption.Announced()
	after.Keys, after.Sender, after.EncryptionUnavailable = announced.Keys, announced.Sender, tsnnetwork.Shorten(announced.Unavailable, maxMessageBytes)
	if r.silent == nil {
		r.silent = map[peerKey]time.Time{}
	}
	r.peerSummaries = map[string]metrics.PeerSummary{}
	for i := range state.Networks {
		name, about := state.Networks[i].Part.Name, state.Networks[i].Object
		last := v1alpha1.NodeNetworkStatus{Name: name}
		at := slices.IndexFunc(before.Networks, func(status v1alpha1.NodeNetworkStatus) bool { return status.Name == name })
		if at >= 0 {
			last = before.Networks[at]
		}
		switch {
		case about != nil:
			after.Networks = append(after.Networks, r.statusOf(state, &state.Networks[i], last.Conditions, node, now))
		case at >= 0:
			after.Networks = append(after.Networks, last)
		}
	}
	slices.SortFunc(after.Networks, byName)
	r.CountPeers(r.peerSummaries)
	return after
}

// statusOf returns the status of a network, whose last conditions are before.
func (r *Reconciler) statusOf(state *network.Cluster, joined *network.Joined, before []metav1.Condition, node *corev1.Node,
	now *ktsndState) v1alpha1.NodeNetworkStatus {
	about := joined.Object
	after := v1alpha1.NodeNetworkStatus{Name: about.Name, ObservedGeneration: about.Generation, Conditions: slices.Clone(before)}
	if now.status != nil {
		after.Uplink, after.LinkSpeed = now.status.Interface, schedule.LinkSpeed(now.status.LinkSpeedBps)
		after.MTU = int32(r.MTU(now.status.Interface, joined))
	}
	encrypted, refused := r.Encryption.Condition(joined)
	ready := r.ready(about, node, now)
	if refused != "" && ready.Status == metav1.ConditionTrue {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonEncryptionUnavailable, refused
	}
	r.set(&after, about, ready)
	if encrypted != nil {
		r.set(&after, about, *encrypted)
	} else {
		meta.RemoveStatusCondition(&after.Conditions, v1alpha1.ConditionEncryptionOperational)
	}
	if request := about.Status.Schedule; request != nil {
		condition := operational(about, about.Name == state.Node.Spec.Gates, now)
		if condition.Status == metav1.ConditionTrue {
			after.ScheduleHash = request.Hash
		}
		r.set(&after, about, condition)
	} else {
		meta.RemoveStatusCondition(&after.Conditions, v1alpha1.ConditionScheduleOperational)
	}
	if condition, some := captured(about.Name, r.Relays()); some {
		r.set(&after, about, condition)
	} else {
		meta.RemoveStatusCondition(&after.Conditions, v1alpha1.ConditionCaptureOperational)
	}
	r.setClock(&after, about)
	r.setPeers(&after, joined, encrypted != nil, now)
	return after
}

func (r *Reconciler) set(status *v1alpha1.NodeNetworkStatus, about *v1alpha1.TSNNetwork, condition metav1.Condition) {
	condition.ObservedGeneration = about.Generation
	condition.LastTransitionTime = metav1.NewTime(r.Now())
	meta.SetStatusCondition(&status.Conditions, condition)
}

// ready returns the condition whether pods can be on the network on this node.
func (r *Reconciler) ready(about *v1alpha1.TSNNetwork, node *corev1.Node, now *ktsndState) metav1.Condition {
	notReady := func(reason, text string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: text}
	}
	uplink, err := network.UplinkOf(about, node)
	switch {
	case err != nil:
		return notReady(v1alpha1.ReasonUplinkMissing, err.Error())
	case now.status == nil:
		return notReady(v1alpha1.ReasonNodeNotReady, errortext.OneLine(now.err))
	case uplink.Interface != "" && uplink.Interface != now.status.Interface:
		return notReady(v1alpha1.ReasonUplinkMissing, fmt.Sprintf("the network insists on interface %s, and ktsnd sends by %s; "+
			"start ktsnd with the other one (uplink.interface of the chart), or correct spec.uplinks", uplink.Interface, now.status.Interface))
	case uplink.Type != "" && !strings.EqualFold(uplink.Type, now.status.Uplink):
		return notReady(v1alpha1.ReasonUplinkMissing, fmt.Sprintf("the network insists on an uplink of type %s, and that of ktsnd is %s; "+
			"start another ktsnd, or correct type in spec.uplinks", uplink.Type, now.status.Uplink))
	}
	if err := overlay.CheckSwitched(now.status.Uplink, uint32(about.Spec.VNI)); err != nil {
		return notReady(v1alpha1.ReasonUplinkMissing, err.Error())
	}
	address, err := tsnnetwork.TunnelAddress(node)
	if sends := now.status.LocalAddress; now.status.Uplink == "direct" && err == nil && sends.IsValid() && address != sends {
		return notReady(v1alpha1.ReasonTunnelAddress, fmt.Sprintf("the other nodes send to %s, the tunnel address of the Node, and ktsnd sends from %s by %s; "+
			"annotate the Node with %s=%s, or have ktsnd send by the interface that has %s (uplink.interface of the chart)", address, sends, now.status.Interface,
			v1alpha1.TunnelAddressAnnotation, sends, address))
	}
	if err := errors.Join(r.Well(), r.Fault(uint32(about.Spec.VNI))); err != nil {
		return notReady(v1alpha1.ReasonNodeNotReady, errortext.OneLine(err))
	}
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked}
}

// operational returns the condition whether ktsnd executes the network's schedule. asked means that the TSNNode names the network.
func operational(about *v1alpha1.TSNNetwork, asked bool, now *ktsndState) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionScheduleOperational, Status: metav1.ConditionUnknown, Reason: reasonPending}
	var refused *control.Error
	switch {
	case now.status == nil:
		condition.Message = errortext.OneLine(now.err)
	case errors.As(now.err, &refused):
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, reasonRefused, errortext.OneLine(now.err)
	case now.err != nil:
		condition.Message = errortext.OneLine(now.err)
	case !asked:
		condition.Message = "the operator has not asked this node yet to execute it"
	case !now.known:
		condition.Message = "the operator has not accepted the schedule in the network's spec; what was accepted last stays in force"
	case now.schedule.Table.ConfigPending:
		begins := now.schedule.Table.ConfigChangeTime
		condition.Message = fmt.Sprintf("it begins at %d.%09d TAI", begins.Seconds, begins.Nanoseconds)
	case tooSlow(about, now.status.LinkSpeedBps):
		condition.Status, condition.Reason = metav1.ConditionFalse, reasonLinkTooSlow
		condition.Message = fmt.Sprintf("the schedule is made for %s, and the uplink has %s", about.Spec.LinkSpeed,
			schedule.FormatLinkSpeed(now.status.LinkSpeedBps))
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonAsAsked
	}
	return condition
}

func tooSlow(about *v1alpha1.TSNNetwork, speedBps int64) bool {
	wanted, err := schedule.ParseLinkSpeed(about.Spec.LinkSpeed)
	return err == nil && speedBps < wanted
}
