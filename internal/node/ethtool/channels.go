// SPDX-License-Identifier: Apache-2.0

package ethtool

// getChannels is ETHTOOL_GCHANNELS of linux/ethtool.h. The others are offsets in its structure, in words of 32 bits.
const (
	getChannels      = 0x3c
	channelsTx       = 6
	channelsCombined = 8
	channelsNumbers  = 9
)

// TransmitQueues returns the number of an interface's transmit queues in use. It fails with unix.EOPNOTSUPP if the driver has no
// channels, so that its queues cannot be set.
func TransmitQueues(name string) (int, error) {
	channels := make([]uint32, channelsNumbers)
	channels[0] = getChannels
	if err := Do(name, channels); err != nil {
		return 0, err
	}
	return int(channels[channelsTx] + channels[channelsCombined]), nil
}
