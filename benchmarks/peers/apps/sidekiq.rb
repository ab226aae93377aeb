# Sidekiq's jobs: `sidekiq -r sidekiq.rb`, and `ruby sidekiq.rb send KIND JOBS [RATE]`. A killed worker loses those that
# it has begun; a reliable fetch is part of Sidekiq Pro.
require "sidekiq"

Sidekiq.configure_server { |config| config.redis = {url: ENV["PEER_REDIS"]} }
Sidekiq.configure_client { |config| config.redis = {url: ENV["PEER_REDIS"]} }

module Record
  def self.now = Process.clock_gettime(Process::CLOCK_REALTIME)

  def self.start(due)
    @file ||= File.open("#{ENV["PEER_RECORDS"]}/#{Process.pid}", "ab").tap { |file| file.sync = true }
    @file.write([due, now].pack("E2"))
  end
end

class Noop
  include Sidekiq::Worker

  def perform(due) = Record.start(due)
end

class Io
  include Sidekiq::Worker

  def perform(due)
    Record.start(due)
    sleep 0.001
  end
end

class Cpu
  include Sidekiq::Worker

  def perform(due)
    Record.start(due)
    finish = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + 0.010
    nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < finish
  end
end

def push(kind, times)
  Sidekiq::Client.push_bulk("class" => kind, "args" => times.map { |due| [due] })
end

if ARGV[0] == "send"
  kind, jobs, rate = ARGV[1].capitalize, ARGV[2].to_i, ARGV[3].to_f
  due = Record.now
  if rate == 0
    Array.new(jobs, due).each_slice(500) { |times| push(kind, times) }
  else
    times = Array.new(jobs) { due += -Math.log(1 - rand) / rate }
    until times.empty?
      now = Record.now
      ready = times.take_while { |each| each <= now }
      times.shift(ready.size)
      ready.empty? ? sleep([times[0] - now, 0].max) : push(kind, ready)
    end
  end
end
