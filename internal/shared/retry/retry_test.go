// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

var errAway = errors.New("it is away")

func TestUntil(t *testing.T) {
	for name, test := range map[string]struct {
		answers []error
		want    error
		asked   int
	}{
		"what is right at once is asked once": {[]error{nil}, nil, 1},
		"what was refused is asked again":     {[]error{errAway, errAway, nil}, nil, 3},
		"a final error ends it":               {[]error{errAway, fmt.Errorf("%w: no", ErrFinal), nil}, ErrFinal, 2},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			err := Until(t.Context(), time.Millisecond, func() error {
				asked++
				return test.answers[asked-1]
			})
			if !errors.Is(err, test.want) || asked != test.asked {
				t.Errorf("got %v after %d questions, want %v after %d", err, asked, test.want, test.asked)
			}
		})
	}
}

func TestUntilReturnsLastError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	err := Until(ctx, time.Millisecond, func() error {
		if asked++; asked == 1 {
			return errAway
		}
		cancel()
		return ctx.Err() // of the question that was under way
	})
	if !errors.Is(err, errAway) || errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, errAway)
	}
}

func TestPause(t *testing.T) {
	if err := Pause(t.Context(), time.Millisecond); err != nil {
		t.Errorf("after its time: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Pause(ended, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("its context has ended: %v", err)
	}
}
