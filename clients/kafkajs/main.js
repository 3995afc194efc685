// Checks of KafkaJS: admin TOPIC | load TOPIC, with the brokers of BOOTSTRAP.
//
// `load` prints `started`, works until stdin ends, and then checks that every acknowledged record is stored once, in
// order, and was delivered to a group of three.
'use strict'

const { Kafka, logLevel } = require('kafkajs')

const PARTITIONS = 6
const MEMBERS = 3
const PER_S = 200
const kafka = new Kafka({
  clientId: 'checks',
  brokers: process.env.BOOTSTRAP.split(','),
  logLevel: logLevel.NOTHING,
  retry: { retries: 20 },
})
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

function check (isTrue, problem) {
  if (!isTrue) throw new Error(problem)
}

async function created (topic, partitions) {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({
    waitForLeaders: true,
    topics: [{ topic, numPartitions: partitions, replicationFactor: 3, configEntries: [{ name: 'retention.ms', value: '3600000' }] }],
  })
  return admin
}

async function admin (topic) {
  const admin = await created(topic, 3)
  await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
  const described = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type: 2, name: topic, configNames: ['retention.ms'] }] })
  check(described.resources[0].configEntries[0].configValue === '3600000', 'retention.ms')
  check((await admin.describeCluster()).brokers.length === 3, 'brokers')
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, messages: [{ partition: 0, key: 'k', value: 'v', headers: { h: '1' } }, { partition: 0, value: null }] })
  await producer.disconnect()
  const offsets = await admin.fetchTopicOffsets(topic)
  check(offsets.find((each) => each.partition === 0).high === '2', 'high watermark')
  await admin.setOffsets({ groupId: 'kafkajs-admin', topic, partitions: [{ partition: 0, offset: '1' }] })
  const committed = await admin.fetchOffsets({ groupId: 'kafkajs-admin', topics: [topic] })
  check(committed[0].partitions.find((each) => each.partition === 0).offset === '1', 'committed offset')
  check((await admin.listGroups()).groups.some((each) => each.groupId === 'kafkajs-admin'), 'listGroups')
  await admin.deleteGroups(['kafkajs-admin'])
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '1' }] })
  await admin.deleteTopics({ topics: [topic] })
  await admin.disconnect()
  console.log('topics, partitions, configurations, offsets, groups, records')
}

async function member (topic, read, seen) {
  const consumer = kafka.consumer({ groupId: `group-${topic}`, sessionTimeout: 10000, rebalanceTimeout: 10000, heartbeatInterval: 1000 })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const joined = new Promise((resolve) => consumer.on(consumer.events.GROUP_JOIN, resolve))
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      seen.deliveries++
      const at = `${partition}/${message.offset}`
      const value = message.value.toString()
      check(!read.has(at) || read.get(at) === value, `two values at ${at}`)
      read.set(at, value)
    },
  })
  await joined
  return consumer
}

async function load (topic) {
  await (await created(topic, PARTITIONS)).disconnect()
  const read = new Map()
  const acked = new Map()
  const seen = { deliveries: 0, last: performance.now(), longest: 0 }
  const members = await Promise.all(Array.from({ length: MEMBERS }, () => member(topic, read, seen)))
  let isEnding = false
  process.stdin.on('end', () => { isEnding = true }).resume()
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  let sent = 0
  const begin = performance.now()
  while (!isEnding) {
    // An idempotent producer of KafkaJS sends one request at a time. It ignores a second answer of the same broker in
    // one `send`, and so drops records whose partition has moved there between attempts. Hence one partition for each
    // `send`.
    const due = Math.floor((performance.now() - begin) * PER_S / 1000)
    if (due <= sent) {
      await sleep(5)
      continue
    }
    const messages = []
    for (; sent < due; sent++) messages.push({ partition: sent % PARTITIONS, value: String(sent) })
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const its = messages.filter((each) => each.partition === partition)
      if (its.length === 0) continue
      const [{ baseOffset }] = await producer.send({ topic, acks: -1, messages: its })
      its.forEach((each, number) => acked.set(`${partition}/${Number(baseOffset) + number}`, each.value))
    }
    seen.longest = Math.max(seen.longest, performance.now() - seen.last)
    seen.last = performance.now()
    if (!seen.started && sent >= PER_S) {
      seen.started = true
      seen.longest = 0
      console.log('started')
    }
  }
  await producer.disconnect()
  check(acked.size === sent, `${acked.size} of ${sent} records were acknowledged`)
  const missing = () => [...acked.keys()].filter((at) => !read.has(at))
  for (const until = performance.now() + 60000; missing().length > 0;) {
    check(performance.now() < until, `${missing().length} acknowledged records were not read`)
    await sleep(100)
  }
  await Promise.all(members.map((each) => each.disconnect()))
  for (const [at, value] of acked) check(read.get(at) === value, `${at} has ${read.get(at)}, not ${value}`)
  for (let partition = 0; partition < PARTITIONS; partition++) {
    let before = -1
    for (let offset = 0; read.has(`${partition}/${offset}`); offset++) {
      const value = Number(read.get(`${partition}/${offset}`))
      check(value > before, `partition ${partition}: ${value} behind ${before}`)
      before = value
    }
  }
  const gap = (seen.longest / 1000).toFixed(2)
  console.log(`${sent} records, each once and in order; ${seen.deliveries} deliveries; longest gap ${gap} s`)
}

const [mode, topic] = process.argv.slice(2)
const modes = { admin, load }
modes[mode](topic).then(() => process.exit(0), (error) => {
  console.error(error)
  process.exit(1)
})
