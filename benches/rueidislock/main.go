// Two clients of rueidislock that hand one lock to and fro, for the group `hand_over` of the benches. The argument: the
// server. Each line of its input says for how many milliseconds; the answer are the nanoseconds of each hand-over, from
// the call that gives back to the return of the one that waits.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// Time for the waiter to ask once and to fall asleep.
const park = 2 * time.Millisecond

type hold struct {
	release context.CancelFunc
	since   time.Time
}

// As its README has it for one server of Redis 7.0.5 or newer, where that is faster.
func connect(server string) rueidislock.Locker {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{server}},
		KeyMajority:    1,
		NoLoopTracking: true,
	})
	must(err)
	return locker
}

func acquire(locker rueidislock.Locker) hold {
	_, release, err := locker.WithContext(context.Background(), "hand-over")
	must(err)
	return hold{release, time.Now()}
}

func pass(holder, waiter rueidislock.Locker, slice time.Duration) []any {
	var samples []any
	end, held := time.Now().Add(slice), acquire(holder)
	for time.Now().Before(end) {
		next := make(chan hold)
		go func() { next <- acquire(waiter) }()
		time.Sleep(park)
		began := time.Now()
		held.release()
		held = <-next
		samples = append(samples, held.since.Sub(began).Nanoseconds())
		holder, waiter = waiter, holder
	}
	held.release()
	return samples
}

func main() {
	one, other := connect(os.Args[1]), connect(os.Args[1])
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		millis, err := strconv.Atoi(input.Text())
		must(err)
		fmt.Println(pass(one, other, time.Duration(millis)*time.Millisecond)...)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
