// SPDX-License-Identifier: Apache-2.0

package doctor

import "context"

// settings says how the node's machine is set up. What is to be won is a note: nothing is wrong with a machine that was not tuned.
func (d *Doctor) settings(ctx context.Context, node string) {
	all, err := d.AskSettings(ctx, node)
	if err != nil {
		d.unseen("settings of the machine", err)
		return
	}
	for _, setting := range all {
		if setting.Cost == "" {
			d.ok(setting.Name, "%s", setting.Found)
			continue
		}
		d.say(Note, setting.Name, setting.Mend, "%s: %s", setting.Found, setting.Cost)
	}
}
