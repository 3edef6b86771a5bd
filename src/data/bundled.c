/* The bundled sets in words: the descriptions that registry.json, prompts and pages show. */

#include "data/bundled.h"

#include "base/macros.h"

#define COLUMNS(a) .columns = (a), .n_columns = ARRAY_SIZE(a)

/* ---- ecommerce ---- */

#define ORDER_STATUSES "completed|returned|cancelled"
#define PRODUCT_CATEGORIES "Electronics|Clothing|Home|Books|Toys"

static const struct bundled_column orders[] = {
    { "order_id", "integer", "Number of the order", NULL, false },
    { "customer_id", "integer", "Customer who placed it", NULL, false },
    { "order_date", "date", "Day on which it was placed", NULL, false },
    { "total", "float", "Sum of quantity * price * (1 - discount) over its items, in dollars", NULL,
      false },
    { "status", "string", "What became of the order", ORDER_STATUSES, false },
    { "returned", "integer", "1 if the order was returned, otherwise 0", "0|1", false },
};

static const struct bundled_column order_items[] = {
    { "item_id", "integer", "Number of the item", NULL, false },
    { "order_id", "integer", "Order that it belongs to", NULL, false },
    { "product_id", "integer", "Product that was bought", NULL, false },
    { "category", "string", "Category of the product", PRODUCT_CATEGORIES, false },
    { "quantity", "integer", "Pieces bought", NULL, false },
    { "price", "float", "Price of one piece before the discount, in dollars", NULL, false },
    { "discount", "float", "Part of the price that was taken off, from 0 to 0.30", NULL, false },
};

static const struct bundled_column inventory[] = {
    { "product_id", "integer", "Number of the product", NULL, false },
    { "name", "string", "Name of the product", NULL, false },
    { "category", "string", "Category of the product", PRODUCT_CATEGORIES, false },
    { "stock", "integer", "Pieces in the warehouse; 0 when sold out", NULL, false },
};

static const char *const ecommerce_relationships[][2] = {
    { "order_items.order_id", "orders.order_id" },
    { "order_items.product_id", "inventory.product_id" },
};

/* ---- support ---- */

static const struct bundled_column tickets[] = {
    { "ticket_id", "string", "Number of the ticket, TKT-00001 and on", NULL, false },
    { "created_at", "datetime", "When it came in", NULL, false },
    { "resolved_at", "datetime", "When it was resolved; empty while it is open", NULL, true },
    { "category", "string", "What it is about", "Technical|Billing|Account|Product", false },
    { "priority", "string", "How urgent it is", "Low|Medium|High|Critical", false },
    { "csat_score", "integer", "Customer satisfaction, 1 (worst) to 5; empty if not answered",
      "1|2|3|4|5", true },
    { "sla_met", "integer",
      "1 if resolved (or, while open, not older than) within 4, 8, 24 or 72 hours for Critical, High, Medium or Low",
      "0|1", false },
    { "resolution_time_hours", "float",
      "Hours from created_at to resolved_at; empty while it is open", NULL, true },
    { "status", "string", "Where it stands", "Open|Resolved|Closed", false },
    { "agent_id", "string", "Who works on it, AGT-01 to AGT-24", NULL, false },
    { "channel", "string", "How it came in", "Email|Chat|Phone", false },
};

/* ---- sensors ---- */

static const struct bundled_column sensors[] = {
    { "sensor_id", "string", "Sensor, SEN-001 to SEN-150", NULL, false },
    { "timestamp", "datetime", "Hour of the reading", NULL, false },
    { "location", "string", "Room or hall that the sensor hangs in", NULL, false },
    { "zone", "string", "Part of the site", "North|South|East|West", false },
    { "temperature_c", "float", "Temperature in degrees Celsius", NULL, true },
    { "humidity_pct", "float", "Relative humidity in per cent", NULL, true },
    { "pressure_hpa", "float", "Air pressure in hectopascal", NULL, true },
    { "vibration_mm_s", "float", "Vibration velocity in millimetres per second", NULL, true },
    { "anomaly_flag", "integer", "1 if the reading is an anomaly, otherwise 0", "0|1", false },
    { "anomaly_type", "string", "Kind of anomaly; empty if there is none",
      "high_temp|low_temp|high_humidity|sensor_fault|vibration_alarm", true },
    { "battery_pct", "float", "Charge of the battery in per cent; empty while offline", NULL,
      true },
    { "status", "string", "State of the sensor", "online|offline|maintenance", false },
};

/* ---- transactions ---- */

static const struct bundled_column transactions[] = {
    { "id", "string", "Number of the transaction, TXN0001 and on", NULL, false },
    { "date", "date", "Day of the transaction", NULL, false },
    { "description", "string", "Who was paid", NULL, false },
    { "amount", "float", "Amount spent, in dollars", NULL, false },
    { "category", "string", "What it was spent on",
      "Housing|Utilities|Insurance|Groceries|Dining|Transport|Shopping|Entertainment|Health|Travel",
      false },
    { "status", "string", "Where the payment stands", "completed|pending|refunded|failed", false },
};

const struct bundled_set bundled_sets[] = {
    {
        .id = "ecommerce",
        .name = "E-commerce Orders",
        .description = "Orders of an online shop with their items and the inventory, "
                       "2025-08-12 to 2026-01-31: sales, discounts, returns and stock.",
        .domain = "retail",
        .tags = "retail|orders|products|returns",
        .files = { { "orders.csv", "One row per order", ECOMMERCE_ORDERS, COLUMNS(orders) },
                   { "order_items.csv", "One row per product of an order", ECOMMERCE_ITEMS,
                     COLUMNS(order_items) },
                   { "inventory.csv", "One row per product", ECOMMERCE_PRODUCTS,
                     COLUMNS(inventory) } },
        .n_files = 3,
        .relationships = ecommerce_relationships,
        .n_relationships = ARRAY_SIZE(ecommerce_relationships),
        .prompts = { "What are the top 10 products by revenue?",
                     "Show me the return rate by category", "How did monthly revenue develop?",
                     "Which customers spent the most?",
                     "What is the average order value by status?",
                     "Which products are out of stock?" },
        .write = bundled_write_ecommerce,
    },
    {
        .id = "support",
        .name = "Support Tickets",
        .description = "Tickets of a customer support desk, 2025-08-01 to 2026-01-31: priorities, "
                       "service levels, resolution times and satisfaction.",
        .domain = "customer-support",
        .tags = "support|tickets|sla|satisfaction",
        .files = { { "tickets.csv", "One row per ticket", SUPPORT_TICKETS, COLUMNS(tickets) } },
        .n_files = 1,
        .prompts = { "What's our SLA compliance rate by priority level?",
                     "Which critical tickets have been open the longest?",
                     "What is the average resolution time by category?",
                     "How many tickets came in each week?",
                     "Which agents have the best average CSAT score?",
                     "How does customer satisfaction differ by channel?" },
        .write = bundled_write_support,
    },
    {
        .id = "sensors",
        .name = "IoT Sensor Readings",
        .description =
            "Hourly readings of 150 sensors of an industrial site, 2026-01-18 to 2026-01-31: "
            "climate, vibration, anomalies and batteries.",
        .domain = "iot",
        .tags = "iot|sensors|time-series|anomalies",
        .files = { { "sensors.csv", "One row per sensor and hour", SENSORS_COUNT *SENSORS_HOURS,
                     COLUMNS(sensors) } },
        .n_files = 1,
        .prompts = { "How many anomalies were detected by location in the last 24 hours?",
                     "Which sensors have battery below 20%?",
                     "What is the average temperature by zone and day?",
                     "What are the most common anomaly types?",
                     "Which sensors were offline the longest?",
                     "Which locations vibrate the most during working hours?" },
        .write = bundled_write_sensors,
    },
    {
        .id = "transactions",
        .name = "Personal Transactions",
        .description =
            "What a household spent in 2024: rent and bills, groceries, dining, travel and more.",
        .domain = "finance",
        .tags = "finance|spending|transactions",
        .files = { { "transactions.csv", "One row per transaction", TRANSACTIONS_COUNT,
                     COLUMNS(transactions) } },
        .n_files = 1,
        .prompts = { "What are the top 5 categories by spend?", "How much was spent each month?",
                     "What were the 10 largest transactions?",
                     "How much was spent on dining per weekday?",
                     "Which transactions are still pending?",
                     "What share of spending goes to housing?" },
        .write = bundled_write_transactions,
    },
};

const size_t n_bundled_sets = ARRAY_SIZE(bundled_sets);
