// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/cli/top"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

const topLong = `Shows the traffic of pods and flows: messages, late messages and drops a second, pending messages, and the departure
error of the interval. On a terminal the view is updated after each interval; keys:

  r l d e p  sort by rate, late, drops, error (p99) or pending
  q          quit

Without a terminal, and with --once, it is printed once.`

// topOptions are the options of `ktsn top`.
type topOptions struct {
	interval time.Duration
	sort     string
	format   string
	once     bool
}

func newTop(env *commandline.Environment) *cobra.Command {
	var path string
	var options topOptions
	command := &cobra.Command{
		Use:   "top",
		Short: "Show the live traffic of pods and flows",
		Long:  topLong,
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			order, err := options.check()
			if err != nil {
				return err
			}
			err = withLastingClient(command.Context(), path, func(ctx context.Context, client *control.Client) error {
				return runTop(ctx, client, options, order, env.Stdout)
			})
			return ignoreInterrupt(command.Context(), err)
		},
	}
	addControl(command, &path)
	flags := command.Flags()
	flags.DurationVar(&options.interval, "interval", time.Second, "time between two updates, 100ms to 1h")
	flags.StringVar(&options.sort, "sort", "rate", "sort order: "+top.Orders())
	flags.BoolVar(&options.once, "once", false, "print one interval and end")
	commandline.OutputFlag(command, &options.format, "text, wide (with the pods' identities), or json: one object a line and interval", "text", "wide", "json")
	return command
}

func (o topOptions) check() (top.Order, error) {
	if o.interval < 100*time.Millisecond || o.interval > time.Hour {
		return "", commandline.Usage(fmt.Errorf("--interval %v; give a time from 100ms to 1h", o.interval))
	}
	order, err := top.ParseOrder(o.sort)
	if err != nil {
		return "", commandline.Usage(fmt.Errorf("--sort: %w", err))
	}
	return order, nil
}

func runTop(ctx context.Context, client *control.Client, options topOptions, order top.Order, out io.Writer) error {
	screen, isTerminal := openScreen(out)
	switch {
	case options.format == "json":
		return watch(ctx, client, options, func(view *top.View) error {
			view.Sort(order)
			return json.NewEncoder(out).Encode(view)
		})
	case options.once || !isTerminal:
		options.once = true
		return watch(ctx, client, options, func(view *top.View) error {
			view.Sort(order)
			return view.Print(out, options.format == "wide")
		})
	}
	return live(ctx, client, options, order, screen)
}

// watch calls show with the view of each interval until ctx ends.
func watch(ctx context.Context, client *control.Client, options topOptions, show func(*top.View) error) error {
	before, err := top.Take(ctx, client, time.Now, nil)
	for err == nil {
		if retry.Pause(ctx, options.interval) != nil {
			return ctx.Err()
		}
		var after *top.Sample
		if after, err = top.Take(ctx, client, time.Now, before); err != nil {
			break
		}
		if err := show(top.Compare(before, after)); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if options.once {
			return nil
		}
		before = after
	}
	return err
}

// live shows the view on a terminal and restores the terminal when it ends.
func live(ctx context.Context, client *control.Client, options topOptions, order top.Order, on *screen) error {
	if err := on.enter(os.Stdin); err != nil {
		return err
	}
	defer on.leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	views := make(chan *top.View)
	ended := make(chan error, 1)
	go func() {
		ended <- watch(ctx, client, options, func(view *top.View) error {
			select {
			case views <- view:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	keys := on.keys(ctx)
	var view *top.View
	for {
		on.draw(view, order, options.format == "wide")
		select {
		case err := <-ended:
			return err
		case view = <-views:
		case key, open := <-keys:
			if !open {
				keys = nil // no keyboard: signals still end it
				break
			}
			if key == 'q' {
				return nil
			}
			if chosen, known := top.OrderOfKey(key); known {
				order = chosen
			}
		}
	}
}

// draw shows the view, or a message if there is none yet.
func (s *screen) draw(view *top.View, order top.Order, wide bool) {
	var text bytes.Buffer
	fmt.Fprintf(&text, "ktsn top, sorted by %s (keys r l d e p; q quits)\n", order)
	if view == nil {
		fmt.Fprintln(&text, "measuring the first interval")
	} else {
		view.Sort(order)
		_ = view.Print(&text, wide) // a buffer takes everything
	}
	s.show(text.String())
}
