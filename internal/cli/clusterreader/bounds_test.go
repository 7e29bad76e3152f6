// SPDX-License-Identifier: Apache-2.0

package clusterreader

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// endlessly writes until its context ends, as a stream from a container does.
func endlessly(ctx context.Context, out io.Writer) error {
	for ctx.Err() == nil {
		if _, err := io.WriteString(out, strings.Repeat("x", 100)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func TestBounds(t *testing.T) {
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		within bounds
		run    func(ctx context.Context, stdout, stderr io.Writer) error
		want   string
	}{
		"one that never ends": {bounds{time.Millisecond, 1000}, func(ctx context.Context, _, _ io.Writer) error {
			<-ctx.Done()
			return ctx.Err()
		}, "it has not ended within 1ms"},
		"one that says too much": {bounds{time.Minute, 1050}, func(ctx context.Context, stdout, _ io.Writer) error {
			return endlessly(ctx, stdout)
		}, "it has said more than 1050 bytes"},
		"one that complains too much": {bounds{time.Minute, 1050}, func(ctx context.Context, _, stderr io.Writer) error {
			return endlessly(ctx, stderr)
		}, "it has said more than 1050 bytes"},
		"one that fails": {bounds{time.Minute, 1000}, func(context.Context, io.Writer, io.Writer) error { return refused }, "refused"},
		"one that says as much as it may": {bounds{time.Minute, 4}, func(_ context.Context, stdout, _ io.Writer) error {
			_, err := io.WriteString(stdout, "four")
			return err
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var output bytes.Buffer
			complaint, err := test.within.hold(t.Context(), &output, test.run)
			if (err != nil || test.want != "") && (err == nil || err.Error() != test.want) {
				t.Errorf("it ends with %v, want %q", err, test.want)
			}
			if output.Len() > test.within.bytes || len(complaint) > test.within.bytes {
				t.Errorf("%d bytes were said, and %d complained", output.Len(), len(complaint))
			}
		})
	}
}
