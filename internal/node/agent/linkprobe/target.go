// SPDX-License-Identifier: Apache-2.0

package linkprobe

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Target is a link to probe from one of its ends.
type Target struct {
	Netns, Interface string
	Local, Peer      netip.Addr
	// MTU is the interface's MTU in bytes. With Adapt, the link is also up with a smaller MTU that the path carries.
	MTU   int
	Adapt bool
}

// Finding is the result of probing a link.
type Finding struct {
	Up bool
	// MTU is the largest answered packet in bytes, 0 if there was none.
	MTU int
	// Message says why the link is not up.
	Message string
	// Broken means that the interface or the network namespace has changed.
	Broken bool
}

const (
	// fastInterval is the time between two probes of a link that is not up, slowInterval of a link that is up.
	fastInterval = 100 * time.Millisecond
	slowInterval = 2 * time.Second
	// retryInterval is the time until a link that is up and has not answered is probed again.
	retryInterval = 300 * time.Millisecond
	// maxAnswerAge is the number of probes for which an answer counts; long paths take longer than fastInterval.
	maxAnswerAge = 20
	// triesPerSize is the number of tries of each size in the search for the largest.
	triesPerSize = 10
	// maxMisses is the number of unanswered probes in a row after which a link is not up.
	maxMisses = 3
	// fullSizeEvery: every such probe of a link that is up has the full size.
	fullSizeEvery = 16
	// fastPeriod is how long a link that is not up is probed at fastInterval.
	fastPeriod = 10 * time.Second
	// minMTU is the minimum link MTU of IPv6 (RFC 8200).
	minMTU = 1280
)

// probe is the state of a target.
type probe struct {
	Target
	echo *echo
	// due is the time of the next step.
	due time.Time
	// since is when the link was last up, or was first probed.
	since    time.Time
	sequence uint16
	steps    int
	// pending are the sizes of the last probe, answered those that were answered.
	pending  []int
	answered map[int]bool
	// misses counts unanswered probes in a row, fullMisses those of the full size.
	misses, fullMisses int
	// fits and fails limit the largest answered size during a search; 0: no search.
	fits, fails int
	// answeredOnce means that the link has answered before.
	answeredOnce bool
	finding      Finding
	// reported means that the finding was reported.
	reported bool
}

// step reads answers, evaluates them, and sends the next probe. It reports whether the finding has changed.
func (a *probe) step(now time.Time, scratch []byte) (changed bool) {
	before := a.finding
	if a.echo == nil {
		echo, err := openEcho(a.Netns, a.Interface, a.Local, a.Peer)
		if err != nil {
			return a.setBroken(now, err)
		}
		a.echo = echo
	}
	if err := a.echo.receive(a.recordAnswer); err != nil && !isTransient(err) {
		return a.setBroken(now, err)
	}
	a.evaluate(now)
	if err := a.sendProbes(now, scratch); err != nil {
		return a.setBroken(now, err)
	}
	changed = before != a.finding || !a.reported && (a.finding.Up || a.finding.Message != "")
	a.reported = a.reported || changed
	return changed
}

func (a *probe) recordAnswer(size int, sequence uint16) {
	if a.sequence-sequence < maxAnswerAge {
		a.answered[size] = true
	}
}

// isTransient reports whether an error refers to an earlier packet, not to the interface.
func isTransient(err error) bool {
	for _, errno := range []unix.Errno{unix.EHOSTUNREACH, unix.ECONNREFUSED, unix.ENOBUFS, unix.EMSGSIZE, unix.EAGAIN, unix.EPERM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// setBroken records that the link cannot be probed. It closes the socket, which would keep the pod's network namespace.
func (a *probe) setBroken(now time.Time, err error) bool {
	before := a.finding
	a.close()
	a.finding = Finding{Broken: true, Message: err.Error()}
	a.due = now.Add(fastInterval)
	if now.Sub(a.since) > fastPeriod {
		a.due = now.Add(slowInterval)
	}
	changed := before != a.finding
	a.reported = true
	return changed
}

func (a *probe) close() {
	if a.echo != nil {
		a.echo.close()
		a.echo = nil
	}
	a.pending = nil
}

// evaluate evaluates the answers to the last probe.
func (a *probe) evaluate(now time.Time) {
	if len(a.pending) == 0 {
		return
	}
	if len(a.answered) == 0 {
		a.misses++
	} else {
		a.misses, a.answeredOnce = 0, true
	}
	if a.fails > 0 {
		a.searchStep()
		return
	}
	full := a.answered[a.MTU]
	for _, size := range a.pending {
		if size == a.MTU && !full && len(a.answered) > 0 {
			a.fullMisses++
		}
	}
	switch {
	case full:
		a.fullMisses = 0
		a.finding, a.since = Finding{Up: true, MTU: a.MTU}, now
	case a.misses >= maxMisses || a.misses > 0 && !a.finding.Up:
		a.finding = Finding{MTU: a.finding.MTU, Message: a.silenceMessage()}
	case a.fullMisses >= maxMisses:
		a.fits, a.fails, a.fullMisses = 0, a.MTU, 0
	case len(a.answered) > 0 && a.finding.Up:
		a.since = now
	case len(a.answered) > 0 && a.finding.MTU == 0:
		a.finding.Message = "small packets are answered; searching for the largest"
	}
}

func (a *probe) silenceMessage() string {
	if a.answeredOnce {
		return fmt.Sprintf("%s, the other end, does not answer any more; the link is up again when it does", a.Peer)
	}
	return fmt.Sprintf("%s, the other end, does not answer; check that it is plugged and that packets get from node to node", a.Peer)
}

// searchStep evaluates one step of the search for the largest answered size.
func (a *probe) searchStep() {
	size := a.pending[0]
	switch {
	case a.answered[size]:
		a.fits, a.fullMisses = size, 0
	case a.misses >= triesPerSize: // the link has stopped answering
		a.fits, a.fails = 0, 0
		a.finding = Finding{MTU: a.finding.MTU, Message: a.silenceMessage()}
		return
	default:
		if a.fullMisses++; a.fullMisses < triesPerSize {
			return
		}
		a.fails, a.fullMisses = size, 0
	}
	if a.fails > minMTU && a.fits+1 < a.fails {
		return
	}
	a.finishSearch()
}

// finishSearch evaluates the search.
func (a *probe) finishSearch() {
	fits := a.fits
	a.fits, a.fails, a.fullMisses = 0, 0, 0
	switch {
	case fits+1 == a.MTU: // the full size may have been lost
		return
	case fits < minMTU:
		a.finding = Finding{Message: fmt.Sprintf("the link's interfaces have an MTU of %d bytes, and packets of %d bytes, which links need, do not come through; "+
			"raise the MTU of the nodes' uplinks and of what is between them", a.MTU, minMTU)}
	case a.Adapt:
		a.finding = Finding{Up: true, MTU: fits}
		a.MTU = fits
	default:
		a.finding = Finding{MTU: fits, Message: fmt.Sprintf("the link's interfaces have an MTU of %d bytes, and its way carries %d; "+
			"set spec.mtu of the service to at most %d, or leave it out", a.MTU, fits, fits)}
	}
}

// sendProbes sends the next packets.
func (a *probe) sendProbes(now time.Time, scratch []byte) error {
	a.sequence++
	a.steps++
	if a.answered == nil {
		a.answered = map[int]bool{}
	}
	clear(a.answered)
	a.pending = a.pending[:0]
	switch {
	case a.fails > 0:
		a.pending = append(a.pending, a.nextSize(), smallBytes)
	case !a.finding.Up:
		a.pending = append(a.pending, a.MTU, smallBytes)
	case a.steps%fullSizeEvery == 0 || a.fullMisses > 0:
		a.pending = append(a.pending, a.MTU, smallBytes)
	default:
		a.pending = append(a.pending, smallBytes)
	}
	for _, size := range a.pending {
		if err := a.echo.send(size, a.sequence, scratch); err != nil && !isTransient(err) {
			return err
		}
	}
	a.due = now.Add(a.interval(now))
	return nil
}

// interval returns the time until the next probe.
func (a *probe) interval(now time.Time) time.Duration {
	switch {
	case a.fails > 0, !a.finding.Up && now.Sub(a.since) < fastPeriod:
		return fastInterval
	case a.finding.Up && (a.misses > 0 || a.fullMisses > 0):
		return retryInterval
	}
	return slowInterval
}

// nextSize returns the next size of the search: minMTU first, then a bisection.
func (a *probe) nextSize() int {
	if a.fits == 0 {
		return minMTU
	}
	return (a.fits + a.fails) / 2
}
