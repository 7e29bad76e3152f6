// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestRunConcurrentlyReturnsErrorsInOrder(t *testing.T) {
	refused := apierrors.NewBadRequest("refused")
	for name, test := range map[string]struct {
		all   bool
		wrong error
		most  int32
	}{
		"the hub refuses":         {false, refused, 100},
		"the federator refuses":   {false, invalid("refused"), 100},
		"all hangs on each":       {true, refused, 2 * maxConcurrent},
		"the hub does not answer": {false, errors.New("connection refused"), 2 * maxConcurrent},
	} {
		t.Run(name, func(t *testing.T) {
			var begun atomic.Int32
			var things []func() error
			for number := range 100 {
				things = append(things, func() error {
					begun.Add(1)
					return fmt.Errorf("thing %d: %w", number, test.wrong)
				})
			}
			wrong := runConcurrently(test.all, things...)
			if begun.Load() > test.most || int(begun.Load()) != len(wrong) {
				t.Errorf("%d were begun, %d at most, and %d went wrong", begun.Load(), test.most, len(wrong))
			}
			if test.most == 100 && (wrong[0].Error() != "thing 0: refused" || wrong[99].Error() != "thing 99: refused") {
				t.Errorf("the first is %v, the last %v", wrong[0], wrong[99])
			}
		})
	}
}

func TestBusy(t *testing.T) {
	var busy Busy
	end, free := busy.begin("ns/web")
	if !free {
		t.Fatal("nobody deploys it, and it is busy")
	}
	if _, free := busy.begin("ns/web"); free {
		t.Error("two deploy it")
	}
	if _, free := busy.begin("ns/other"); !free {
		t.Error("another one is busy")
	}
	end()
	if _, free := busy.begin("ns/web"); !free {
		t.Error("it stays busy")
	}
}
