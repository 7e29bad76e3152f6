// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package lab

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
)

// Belief is an output of `ktsn node clock --follow` in a guest.
type Belief struct {
	// Host is the host's counter when the line arrived.
	Host int64
	clock.Report
}

// Believer follows a guest's clock in the guest.
type Believer struct {
	Guest *Guest
	// Name is the program's name.
	Name string

	beliefs []Belief
}

// Beliefs returns the beliefs so far.
func (b *Believer) Beliefs() ([]Belief, error) {
	for _, message := range b.Guest.Said(b.Name)[len(b.beliefs):] {
		belief := Belief{Host: b.Guest.counter.Host(message.TSC)}
		if err := json.Unmarshal([]byte(message.Line), &belief.Report); err != nil {
			return nil, fmt.Errorf("%s of %s says %q (%s): %w", b.Name, b.Guest.Name, message.Line, message.Error, err)
		}
		b.beliefs = append(b.beliefs, belief)
	}
	return b.beliefs, nil
}

// Judge evaluates the same estimates for another need, as an agent does for its networks.
func Judge(beliefs []Belief, need clock.Need) []Belief {
	var judge clock.Judge
	judged := make([]Belief, len(beliefs))
	for i, belief := range beliefs {
		estimate := clock.Estimate{At: time.Unix(0, 0).Add(guestclock.Duration(belief.Host)), Source: belief.Source,
			Bound: time.Duration(belief.BoundNs), DriftPPB: belief.DriftPPB}
		if belief.LostNs != nil {
			estimate.Lost = estimate.At.Add(-time.Duration(*belief.LostNs))
		}
		verdict := judge.Look(need, estimate)
		judged[i] = belief
		judged[i].State, judged[i].Reason, judged[i].Sentence = verdict.State, verdict.Reason, verdict.Sentence
	}
	return judged
}

// Bound returns the belief's bound of the error at a later value of the host's counter.
func (b *Belief) Bound(host int64) time.Duration {
	age := guestclock.Duration(host - b.Host)
	return time.Duration(b.BoundNs) + time.Duration(float64(b.DriftPPB)*age.Seconds())
}

// After returns how much later a belief is than another.
func (b *Belief) After(other *Belief) time.Duration { return guestclock.Duration(b.Host - other.Host) }
