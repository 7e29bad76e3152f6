// SPDX-License-Identifier: Apache-2.0

package linkprobe

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Target is a link that is asked, from one of its ends.
type Target struct {
	Netns, Interface string
	Own, Peer        netip.Addr
	// MTU is that of the interface. With Adapt, a smaller one that the way carries is good as well.
	MTU   int
	Adapt bool
}

// Finding is what is known of a link.
type Finding struct {
	Up bool
	// MTU is the largest packet that was answered, in bytes; 0: none was.
	MTU int
	// Sentence says why it is not up.
	Sentence string
	// Broken tells that the interface or the network namespace is not what it was.
	Broken bool
}

const (
	// fast is how often a link is asked that is not up, slow how often one that is.
	fast = 100 * time.Millisecond
	slow = 2 * time.Second
	// again is when a link is asked again that is up and has not answered.
	again = 300 * time.Millisecond
	// recent is how many askings ago an answer may be to; ways through the world take longer than fast.
	recent = 20
	// patient is how many times a size is tried in the search for the largest.
	patient = 10
	// silent is how many times in a row nothing comes before a link is not up.
	silent = 3
	// fullEvery is how often, of the times that it is asked, a link that is up is asked with the largest packet.
	fullEvery = 16
	// away is for how long a link that is not up is asked fast. Later it is asked as one that is.
	away = 10 * time.Second
	// leastMTU is what IPv6 needs of a link (RFC 8200).
	leastMTU = 1280
)

// asked is a target that is asked.
type asked struct {
	Target
	echo *echo
	// due is when to look again.
	due time.Time
	// since is when it was last up, or else first asked.
	since    time.Time
	sequence uint16
	turns    int
	// pending are the sizes that were asked last, answered which of them were answered since.
	pending  []int
	answered map[int]bool
	// misses and fullMisses count in a row what was not answered, of any size and of the largest.
	misses, fullMisses int
	// fits and fails are between what the largest size is that is answered, while it is searched; 0: it is not.
	fits, fails int
	// heard tells that something was answered lately.
	heard   bool
	finding Finding
	// told tells that somebody was told of the finding.
	told bool
}

// turn reads what has come, draws conclusions, and asks again. changed tells that the finding is another.
func (a *asked) turn(now time.Time, scratch []byte) (changed bool) {
	before := a.finding
	if a.echo == nil {
		echo, err := openEcho(a.Netns, a.Interface, a.Own, a.Peer)
		if err != nil {
			return a.broken(now, err)
		}
		a.echo = echo
	}
	if err := a.echo.hear(a.hear); err != nil && !passing(err) {
		return a.broken(now, err)
	}
	a.conclude(now)
	if err := a.ask(now, scratch); err != nil {
		return a.broken(now, err)
	}
	changed = before != a.finding || !a.told && (a.finding.Up || a.finding.Sentence != "")
	a.told = a.told || changed
	return changed
}

func (a *asked) hear(size int, sequence uint16) {
	if a.sequence-sequence < recent {
		a.answered[size] = true
	}
}

// passing are errors that speak of a packet before, not of the interface.
func passing(err error) bool {
	for _, errno := range []unix.Errno{unix.EHOSTUNREACH, unix.ECONNREFUSED, unix.ENOBUFS, unix.EMSGSIZE, unix.EAGAIN, unix.EPERM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// broken is that nothing can be asked. The socket is closed at once: it would keep the pod's network namespace.
func (a *asked) broken(now time.Time, err error) bool {
	before := a.finding
	a.close()
	a.finding = Finding{Broken: true, Sentence: err.Error()}
	a.due = now.Add(fast)
	if now.Sub(a.since) > away {
		a.due = now.Add(slow)
	}
	changed := before != a.finding
	a.told = true
	return changed
}

func (a *asked) close() {
	if a.echo != nil {
		a.echo.close()
		a.echo = nil
	}
	a.pending = nil
}

// conclude draws conclusions from what was asked last.
func (a *asked) conclude(now time.Time) {
	if len(a.pending) == 0 {
		return
	}
	if len(a.answered) == 0 {
		a.misses++
	} else {
		a.misses, a.heard = 0, true
	}
	if a.fails > 0 {
		a.searched()
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
	case a.misses >= silent || a.misses > 0 && !a.finding.Up:
		a.finding = Finding{MTU: a.finding.MTU, Sentence: a.silence()}
	case a.fullMisses >= silent:
		a.fits, a.fails, a.fullMisses = 0, a.MTU, 0
	case len(a.answered) > 0 && a.finding.Up:
		a.since = now
	case len(a.answered) > 0 && a.finding.MTU == 0:
		a.finding.Sentence = "small packets are answered; the largest are being tried"
	}
}

func (a *asked) silence() string {
	if a.heard {
		return fmt.Sprintf("%s, the other end, does not answer any more; the link stays, and is up again when it does", a.Peer)
	}
	return fmt.Sprintf("%s, the other end, does not answer; see whether it is plugged, and whether packets come from node to node", a.Peer)
}

// searched takes one step of the search for the largest size that is answered.
func (a *asked) searched() {
	size := a.pending[0]
	switch {
	case a.answered[size]:
		a.fits, a.fullMisses = size, 0
	case a.misses >= patient: // nothing at all is answered now
		a.fits, a.fails = 0, 0
		a.finding = Finding{MTU: a.finding.MTU, Sentence: a.silence()}
		return
	default:
		if a.fullMisses++; a.fullMisses < patient {
			return
		}
		a.fails, a.fullMisses = size, 0
	}
	if a.fails > leastMTU && a.fits+1 < a.fails {
		return
	}
	a.found()
}

// found ends the search.
func (a *asked) found() {
	fits := a.fits
	a.fits, a.fails, a.fullMisses = 0, 0, 0
	switch {
	case fits+1 == a.MTU: // which may have been lost
		return
	case fits < leastMTU:
		a.finding = Finding{Sentence: fmt.Sprintf("the link's interfaces have an MTU of %d bytes, and packets of %d bytes, which links need, do not come through; "+
			"raise the MTU of the nodes' uplinks and of what is between them", a.MTU, leastMTU)}
	case a.Adapt:
		a.finding = Finding{Up: true, MTU: fits}
		a.MTU = fits
	default:
		a.finding = Finding{MTU: fits, Sentence: fmt.Sprintf("the link's interfaces have an MTU of %d bytes, and its way carries %d; "+
			"set spec.mtu of the service to at most %d, or leave it out", a.MTU, fits, fits)}
	}
}

// ask sends the next packets.
func (a *asked) ask(now time.Time, scratch []byte) error {
	a.sequence++
	a.turns++
	if a.answered == nil {
		a.answered = map[int]bool{}
	}
	clear(a.answered)
	a.pending = a.pending[:0]
	switch {
	case a.fails > 0:
		a.pending = append(a.pending, a.next(), smallBytes)
	case !a.finding.Up:
		a.pending = append(a.pending, a.MTU, smallBytes)
	case a.turns%fullEvery == 0 || a.fullMisses > 0:
		a.pending = append(a.pending, a.MTU, smallBytes)
	default:
		a.pending = append(a.pending, smallBytes)
	}
	for _, size := range a.pending {
		if err := a.echo.send(size, a.sequence, scratch); err != nil && !passing(err) {
			return err
		}
	}
	a.due = now.Add(a.pause(now))
	return nil
}

// pause is for how long an answer is waited for.
func (a *asked) pause(now time.Time) time.Duration {
	switch {
	case a.fails > 0, !a.finding.Up && now.Sub(a.since) < away:
		return fast
	case a.finding.Up && (a.misses > 0 || a.fullMisses > 0):
		return again
	}
	return slow
}

// next is the size to try next: the least that links need, then halves.
func (a *asked) next() int {
	if a.fits == 0 {
		return leastMTU
	}
	return (a.fits + a.fails) / 2
}
