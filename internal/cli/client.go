// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// requestTimeout bounds all requests of one command together.
const requestTimeout = 5 * time.Second

// addControl gives a command the option that names ktsnd's control socket.
func addControl(command *cobra.Command, path *string) {
	command.Flags().StringVar(path, "control", control.DefaultPath, "ktsnd's control socket")
}

// withClient has do talk to the ktsnd whose control socket is at path.
func withClient(ctx context.Context, path string, do func(context.Context, *control.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return withLastingClient(ctx, path, do)
}

// withLastingClient is withClient for a command that goes on until it is interrupted.
func withLastingClient(ctx context.Context, path string, do func(context.Context, *control.Client) error) error {
	client, err := control.Dial(ctx, path)
	if err != nil {
		return fmt.Errorf("%w; is ktsnd running, and is this its control socket?", err)
	}
	defer client.Close()
	return do(ctx, client)
}

// endless is what a command that went on until it was interrupted ended with: nothing went wrong then.
func endless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func checkFormat(format string, accepted ...string) error {
	return checkChoice("--output", format, accepted...)
}

// checkChoice refuses what is not among the values of an option.
func checkChoice(option, format string, accepted ...string) error {
	if slices.Contains(accepted, format) {
		return nil
	}
	last := len(accepted) - 1
	return usageError{fmt.Errorf("%s %q is no format; accepted are %s and %s", option, format,
		strings.Join(accepted[:last], ", "), accepted[last])}
}

func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
