// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/internal/guest/kernelconfig"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

const (
	guestProgram = "ktsn-guest"
	guestDocs    = "docs/guide/virtual-machines.md says what the machine needs"
)

// guestStatus is the used part of the output of `ktsn-guest status --output json`.
type guestStatus struct {
	Interface string            `json:"interface"`
	Known     bool              `json:"known"`
	BoundNs   uint64            `json:"bound_ns"`
	Sent      uint64            `json:"sent"`
	Refused   map[string]uint64 `json:"refused"`
}

// guest reports whether frames leave the pod's machine with their transmit time. Only Kata's machines can be checked, because they run the
// pod's containers.
func (d *Doctor) guest(ctx context.Context, pod *corev1.Pod, networks []string) {
	if !isOfKata(pod) {
		return
	}
	const about = "guest"
	container := guestContainer(pod)
	if container == "" {
		d.report(Note, about, guestDocs+"; a machine whose own queueing disciplines release frames, or that sends by class alone, does without",
			"no container of the pod runs %s, so frames leave the machine without their transmit time", guestProgram)
		return
	}
	d.guestKernel(ctx, pod, container, Bad, kernelconfig.Held)
	d.guestKernel(ctx, pod, container, Note, kernelconfig.Clock)
	arguments := []string{"status", "--output", "json"}
	var asked []string
	for i := range networks {
		asked = append(asked, tsnnetwork.InterfaceOf(i))
		arguments = append(arguments, "--interface", asked[i])
	}
	d.taiOffset(ctx, pod)
	text, err := d.AskGuest(ctx, pod, container, arguments...)
	if err != nil {
		d.unreadable(about, err)
		return
	}
	var all []guestStatus
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		d.unreadable(about, err)
		return
	}
	for _, name := range asked {
		at := slices.IndexFunc(all, func(status guestStatus) bool { return status.Interface == name })
		if at < 0 {
			d.report(Note, about+" at "+name, "the container must run the "+guestProgram+" of this release", "%s does not report this interface", guestProgram)
			continue
		}
		d.guestAt(&all[at])
	}
}

// guestContainer returns the name of the container that runs ktsn-guest, or "".
func guestContainer(pod *corev1.Pod) string {
	name, _ := guestCommand(pod)
	return name
}

// guestCommand returns the container that runs ktsn-guest, or "", and the words that follow ktsn-guest.
func guestCommand(pod *corev1.Pod) (container string, arguments []string) {
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		words := slices.Concat(container.Command, container.Args)
		at := slices.IndexFunc(words, func(word string) bool { return path.Base(word) == guestProgram })
		if at >= 0 && slices.Contains(words[at:], "run") {
			return container.Name, words[at+1:]
		}
	}
	return "", nil
}

func (d *Doctor) guestAt(at *guestStatus) {
	about := "guest at " + at.Interface
	switch unsure := at.Refused[capture.ReasonUnsure]; {
	case !at.Known:
		d.report(Bad, about, "the log of "+guestProgram+" says why; Kata's machines have no virtio port, and on KVM the host's clock is read by ptp_kvm (docs/guide/virtual-machines.md)",
			"the host's time is not known in the machine, so frames with a transmit time are dropped there: %d so far", unsure)
	case unsure > 0:
		d.report(Note, about, "the log of "+guestProgram+" says since when the host's time is known", "the host's time is known within %v; before it was, or while it "+
			"was not, %d frames with a transmit time were dropped, and %d left", time.Duration(at.BoundNs), unsure, at.Sent)
	default:
		d.ok(about, "the host's time is known within %v, and %d frames left with their transmit time", time.Duration(at.BoundNs), at.Sent)
	}
}

// taiOffset compares the TAI offset that ktsn-guest was given with that of the node. With ptp_kvm a wrong offset shifts frames by whole
// seconds, which cannot be detected in the machine.
func (d *Doctor) taiOffset(ctx context.Context, pod *corev1.Pod) {
	const option, about = "--tai-offset", "guest's CLOCK_TAI"
	_, words := guestCommand(pod)
	text := optionOf(words, option)
	if text == "" || optionOf(words, "--host-clock") == "port" {
		return
	}
	state, err := d.AskKtsnd(ctx, pod.Spec.NodeName)
	if err != nil || state.Status == nil {
		return // reported by the check of ktsnd
	}
	if offset := strconv.Itoa(state.Status.Clock.TAIOffsetS); text != offset {
		d.report(Bad, about, "give "+guestProgram+" "+option+" "+offset+", or set it in the node's kernel (docs/guide/clocks.md), and recreate the pod",
			"%s has %s %s, and on node %s CLOCK_TAI is %s s ahead: by ptp_kvm frames leave off by the difference", guestProgram, option, text, pod.Spec.NodeName, offset)
	}
}

// optionOf returns the value of an option among the words of a command, or "" if it is missing.
func optionOf(words []string, option string) string {
	for i, word := range words {
		if value, ok := strings.CutPrefix(word, option+"="); ok {
			return value
		}
		if word == option && i+1 < len(words) {
			return words[i+1]
		}
	}
	return ""
}

// guestKernel lists the missing options of the machine's kernel. level is Note for parts that not all machines need.
func (d *Doctor) guestKernel(ctx context.Context, pod *corev1.Pod, container string, level Level, parts ...kernelconfig.Part) {
	var names []string
	for _, part := range parts {
		names = append(names, string(part))
	}
	about := "guest's kernel, for " + strings.Join(names, " and ")
	text, err := d.AskGuest(ctx, pod, container, "kernel", "check", "--for", strings.Join(names, ","))
	var missing []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "CONFIG_") {
			missing = append(missing, strings.TrimSpace(line))
		}
	}
	switch {
	case len(missing) > 0:
		d.report(level, about, "`ktsn-guest kernel config` prints a fragment for Kata's kernel builder", "%s", strings.Join(missing, "; "))
	case err != nil:
		d.unreadable(about, err)
	default:
		d.ok(about, "%s", text)
	}
}
