// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// requestTimeout is the timeout of all requests of one command together.
const requestTimeout = 5 * time.Second

// addControl adds the option for ktsnd's control socket.
func addControl(command *cobra.Command, path *string) {
	command.Flags().StringVar(path, "control", control.DefaultPath, "ktsnd's control socket")
}

// withClient calls do with a client of the control socket at path.
func withClient(ctx context.Context, path string, do func(context.Context, *control.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return withLastingClient(ctx, path, do)
}

// withLastingClient is withClient for a command that runs until it is interrupted.
func withLastingClient(ctx context.Context, path string, do func(context.Context, *control.Client) error) error {
	client, err := control.Dial(ctx, path)
	if err != nil {
		return fmt.Errorf("%w; is ktsnd running, and is this its control socket?", err)
	}
	defer client.Close()
	return do(ctx, client)
}

// ask returns the answer to what request asks of the ktsnd whose control socket is at path.
func ask[T any](ctx context.Context, path string, request func(context.Context, *control.Client) (T, error)) (answer T, err error) {
	err = withClient(ctx, path, func(ctx context.Context, client *control.Client) (err error) {
		answer, err = request(ctx, client)
		return err
	})
	return answer, err
}

func readStatus(ctx context.Context, client *control.Client) (*control.Status, error) {
	return client.Status(ctx)
}

func readSchedule(ctx context.Context, client *control.Client) (*control.Schedule, error) {
	return client.Schedule(ctx)
}

// ignoreInterrupt converts the error of a command that ran until it was interrupted to success.
func ignoreInterrupt(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// show writes a value as JSON, or with printText in the other formats.
func show[T any](out io.Writer, format string, value T, printText func(io.Writer, T) error) error {
	if format == "json" {
		return printJSON(out, value)
	}
	return printText(out, value)
}

func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
