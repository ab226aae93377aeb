-- The messages of flows between queues, and what they do. Each may arrive again, also after later ones.
--   home to part: begin (all jobs of the flow are stored); start NUMBER; cancel NUMBER CAUSE (a job that waits for
--     others has ended; CAUSE as in flows/parts/jobs.lua); stop NUMBER (cancel a job that was started); undo NUMBER (run
--     its compensation); over (the flow has ended)
--   part to home: ended NUMBER LETTER VALUE; undone NUMBER LETTER (of a compensation)
--   both: ask (is the flow known?)
-- KEYS: flows: hash, expiry
-- include: flows/ended
local function flow_messages(engine)
  local store, members = engine.store, engine.members
  local messages = {}

  local function end_part(flow, window)
    flow.record.state = 'ended'
    engine.visit_after(flow, window)
    store.save(flow)
  end

  local to_part = {
    start = function(flow, number) members.start(flow, number) end,
    cancel = function(flow, number, cause, outcomes) members.cancel_blocked(flow, number, cause, outcomes) end,
    stop = function(flow, number, _, outcomes) members.stop(flow, number, outcomes) end,
    undo = function(flow, number) members.start_compensation(flow, number) end,
  }

  local function receive_in_part(flow, kind, number, value, outcomes, window)
    if flow.record.state == 'storing' then engine.begin(flow, flow.record.stored) end
    if flow.record.state ~= 'running' or flow.record.lost then return end
    if kind == 'over' then
      end_part(flow, window)
    elseif to_part[kind] then
      to_part[kind](flow, number, value, outcomes)
    end
  end

  local function receive_in_home(flow, source, kind, number, letter, value)
    if not store.active(flow) then return end
    if kind == 'ended' and store.get(flow, 'queue', number) == source then
      members.record_end(flow, number, letter, value)
    elseif kind == 'undone' then
      members.record_compensation(flow, number, letter)
    end
  end

  -- Apply a message from another queue. Return whether its flow is known.
  function messages.receive(source, message, outcomes, window)
    local kind, id = message[1], message[2]
    local flow = store.open(id)
    local state = flow and flow.record.state
    if not flow or state == 'removing' or state == 'discarding' then return false end
    if flow.record.home then
      receive_in_part(flow, kind, message[3], message[4], outcomes, window)
    else
      receive_in_home(flow, source, kind, message[3], message[4], message[5])
    end
    return true
  end

  -- In a part: the home has no such flow (any more).
  local function lose_home(flow)
    if flow.record.state == 'storing' then
      flow.record.state = 'discarding'
      engine.visit_after(flow, 0)
      store.save(flow)
    elseif flow.record.state == 'running' and not flow.record.lost then
      flow.record.lost = true
      flow.steps = {{lost = flow.record.home, at = 1}}
    end
  end

  -- In the home: a queue has no part of the flow any more.
  local function lose_part(flow, name)
    if not store.active(flow) or (flow.record.parts or {})[name] ~= 1 then return end
    flow.record.parts[name] = 0
    members.lose_compensation(flow, name)
    if flow.record.state == 'running' then flow.steps[#flow.steps + 1] = {lost = name, at = 1} end
  end

  -- Handle a message whose flow the other queue does not know (any more).
  function messages.unknown(name, message)
    local flow = store.open(message[2])
    if not flow then return end
    if flow.record.home == name then lose_home(flow) else lose_part(flow, name) end
  end

  return messages
end
